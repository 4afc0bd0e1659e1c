/** How nodes of a Redlock begin, at the boot and later, with nodes that a test speaks for: who is waited for, who is refused, and what is told. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { delay } from '../../../lib/core/port/clock.js';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import type { Finding } from '../../../lib/core/port/report.js';
import { LateNodes, RedlockBoot } from '../../../lib/stores/redlock/redlock-boot.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { FakeClock } from '../../support/fake-clock.js';

let clock: FakeClock;
let told: Finding[];
beforeEach(() => {
  clock = new FakeClock();
  told = [];
});

/** A node that is open after a while, or fails then. */
class Node {
  afterMs = 1;
  fails: LockStoreError | undefined;
  greetingFails: LockStoreError | undefined;
  connected = true;
  opened = 0;
  claimed = 0;
  greeted = 0;
  reconnected = 0;
  readonly link = {
    name: '',
    twin: undefined as unknown,
    reachable: true,
    check: { passed: true, isUnderWay: false, claimFormat: async (): Promise<void> => void (this.claimed += 1) },
    open: async (): Promise<void> => {
      this.opened += 1;
      await delay(clock, this.afterMs);
      if (this.fails) throw this.fails;
    },
    reconnect: (): void => void (this.reconnected += 1),
    refuse: (error: LockStoreError): void => void (this.refusedWith = error),
  };
  refusedWith: LockStoreError | undefined;
  constructor(readonly name: string) {
    this.link.name = name;
  }
}

const failure = (reason: string, retryable = true): LockStoreError => new LockStoreError(`It failed: ${reason}`, { retryable, nodes: [{ node: 'x', reason }] });
const greet = async (node: RedlockNode): Promise<void> => {
  const { greetingFails } = node as unknown as Node;
  (node as unknown as Node).greeted += 1;
  if (greetingFails) throw greetingFails;
};

describe('The boot of a Redlock', () => {
  function boot(...how: Partial<Node>[]): { nodes: Node[]; run: () => Promise<string | undefined>; since: () => number } {
    const nodes = how.map((one, n) => Object.assign(new Node('abcde'[n]!), one));
    const begun = clock.now();
    return { nodes, run: () => clock.runUntil(new RedlockBoot(nodes as unknown as RedlockNode[], clock, greet).run()), since: () => clock.now() - begun };
  }

  it('is over when all nodes are there, without a word and without a timer', async () => {
    const { nodes, run, since } = boot({}, { afterMs: 5 }, { afterMs: 200 });
    expect([await run(), since(), clock.pendingTimers]).toEqual([undefined, 200, 0]);
    expect(nodes.map(({ greeted }) => greeted)).toEqual([1, 1, 1]);
  });

  it('waits 300 ms for the others when a quorum is there, and warns of those that are missing', async () => {
    const { run, since } = boot({}, { afterMs: 50 }, { afterMs: 60_000 });
    expect([await run(), since()]).toEqual(['Locks: 1 of 3 Redlock nodes cannot be used now (c: not connected yet). The others are a quorum.', 350]);
  });

  it('does not wait for anybody when all have said what they can do', async () => {
    const { run, since } = boot({}, { fails: failure('LOADING') }, {});
    expect([await run(), since(), clock.pendingTimers]).toEqual(['Locks: 1 of 3 Redlock nodes cannot be used now (b: LOADING). The others are a quorum.', 1, 0]);
  });

  it('fails without a quorum, however long that takes, and names each node that is missing', async () => {
    const { run, since } = boot({}, { fails: failure('LOADING'), afterMs: 900 }, { greetingFails: new LockStoreError('It does not greet.') });
    const error = (await run().catch((reason: unknown) => reason)) as LockStoreError;
    expect([error.message, since()]).toEqual(['Locks: only 1 of 3 Redlock nodes can be used, and a quorum is 2 (b: LOADING; c: It does not greet.).', 900]);
    expect(error).toMatchObject({ retryable: true, nodes: [{ node: 'b', reason: 'LOADING' }, { node: 'c', reason: 'It does not greet.' }] });
  });

  it('fails with what only an operator can put right, though the others are a quorum, but not with what may pass', async () => {
    await expect(boot({}, {}, { fails: failure('WRONGPASS', false) }).run()).rejects.toThrow('It failed: WRONGPASS');
    await expect(boot({}, {}, { fails: new LockStoreError('It names no node.', { retryable: false }) }).run()).rejects.toThrow('It names no node.');
    for (const reason of ['MISCONF disk is full', 'NOREPLICAS not enough']) expect(await boot({}, {}, { fails: failure(reason) }).run()).toContain(reason);
  });

  it('fails when two nodes are one server', async () => {
    const on = boot({}, {}, {});
    on.nodes[2]!.link.twin = on.nodes[0]!.link;
    await expect(on.run()).rejects.toMatchObject({
      message: 'Locks: the Redlock nodes a and c are one server. Give each node a server of its own: two votes of one server are no quorum.',
      retryable: false,
      nodes: [{ node: 'c', reason: 'the same server as a' }],
    });
  });
});

describe('A node that connects after the boot', () => {
  const late = () => {
    const nodes = new LateNodes(clock, greet, (finding) => told.push(finding));
    const node = new Node('c');
    return { nodes, node, join: () => clock.runUntil(nodes.join(node as unknown as RedlockNode)), lookAgain: () => nodes.lookAgain(node as unknown as RedlockNode) };
  };

  it('is checked when it never was, has its format looked at when it was, and is greeted', async () => {
    const { node, join } = late();
    await join();
    expect([node.opened, node.claimed, node.greeted]).toEqual([0, 1, 1]);
    node.link.check.passed = false;
    await join();
    expect([node.opened, node.claimed, node.greeted, clock.pendingTimers]).toEqual([1, 1, 2, 0]);
  });

  it('is looked at again every half second while it is not fit to vote', async () => {
    const { node, join } = late();
    node.connected = false;
    await join();
    await clock.advance(499);
    expect(node.greeted).toBe(1);
    await clock.advance(1);
    expect(node.greeted).toBe(2);
    node.connected = true;
    await clock.advance(2_000);
    expect([node.greeted, clock.pendingTimers]).toEqual([2, 0]);
  });

  it('is looked at once at a time, later while a check is under way, and not without a connection', async () => {
    const { node, lookAgain } = late();
    Object.assign(node, { connected: false });
    lookAgain();
    lookAgain();
    expect(clock.pendingTimers).toBe(1);
    node.link.check.isUnderWay = true;
    await clock.advance(1_200);
    expect([node.greeted, clock.pendingTimers]).toEqual([0, 1]);
    node.link.check.isUnderWay = false;
    node.link.reachable = false;
    await clock.advance(1_000);
    expect([node.greeted, node.reconnected, clock.pendingTimers]).toEqual([0, 0, 0]);
  });

  it('and leads to a server that another one has is connected anew every half second, and told once; so is the end of that', async () => {
    const { node, join, lookAgain } = late();
    node.link.twin = { name: 'a' };
    node.connected = false;
    await join();
    await clock.advance(500);
    expect(node.reconnected).toBe(1);
    await join();
    node.link.twin = undefined;
    await join();
    expect(told).toHaveLength(1);
    node.connected = true;
    await join();
    await join();
    lookAgain();
    await clock.advance(500);
    expect(told).toEqual([
      { kind: 'twin c', level: 'error', message: 'Locks: the Redlock nodes a and c are one server. c joined later: its vote does not count until it leads to a server of its own. Check where this address leads.' },
      { kind: 'no twin c', level: 'info', message: 'Locks: c leads to a server of its own now.' },
    ]);
  });

  it('is refused until the process is restarted for what only an operator can put right, and tried again for anything else', async () => {
    const { node, join } = late();
    node.link.check.passed = false;
    node.connected = false;
    node.fails = failure('LOADING');
    await join();
    expect([node.refusedWith, told, clock.pendingTimers]).toEqual([undefined, [], 1]);
    node.fails = failure('WRONGPASS', false);
    await clock.advance(502);
    expect(node.refusedWith).toBe(node.fails);
    expect(told).toEqual([{ kind: 'refused c', level: 'error', message: 'Locks: c is not used until this process is restarted: It failed: WRONGPASS' }]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('and whose data have another format is refused before it is greeted', async () => {
    const { node, join } = late();
    const error = failure('another format', false);
    node.link.check.claimFormat = async () => {
      await delay(clock, 1);
      throw error;
    };
    await join();
    expect([node.refusedWith, node.greeted]).toEqual([error, 0]);
  });

  it('is not looked at any more once all is closed, whatever was found of it', async () => {
    for (const link of [{ twin: { name: 'a' } }, { check: { isUnderWay: true } }]) {
      const { nodes, node, lookAgain } = late();
      node.connected = false;
      Object.assign(node.link, link);
      lookAgain();
      nodes.close();
      await clock.advance(500);
      expect([node.reconnected, node.greeted, clock.pendingTimers]).toEqual([0, 0, 0]);
    }
  });

  it('is left alone once all is closed, and no failure of that is told', async () => {
    const { nodes, node, join, lookAgain } = late();
    node.link.check.passed = false;
    node.connected = false;
    node.fails = failure('WRONGPASS', false);
    lookAgain();
    const joining = nodes.join(node as unknown as RedlockNode);
    nodes.close();
    await clock.runUntil(joining);
    await clock.advance(2_000);
    await join();
    expect([node.opened, told, node.refusedWith, clock.pendingTimers]).toEqual([1, [], undefined, 0]);
  });
});
