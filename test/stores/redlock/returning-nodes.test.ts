/** Nodes of a Redlock that were missing, forgot or came back, on simulated masters: what is told of them, and what they may do again. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Wake } from '../../../lib/core/port/lock-store.js';
import { recall } from '../../../lib/stores/wire/lua.generated.js';
import { SimServer } from '../../simulation/sim-server.js';
import { holdsUp, RedlockRequests } from '../../support/redlock-requests.js';
import { remembers, simulatedRedlock, type RedlockMember } from '../../support/simulated-redlock.js';

const redlock = simulatedRedlock();
const requests = new RedlockRequests(redlock);
let one: SimServer;
let two: SimServer;
let three: SimServer;
beforeEach(() => void ([one, two, three] = redlock.servers as [SimServer, SimServer, SimServer]));

const told = ({ told }: RedlockMember): string[] => told.map(({ kind, message }) => `${kind}: ${message}`);

describe('A node that was missing at boot', () => {
  it('counts as one that does not serve, and is told when it serves, though nobody asks for a lock', async () => {
    three.stop();
    const member = await redlock.opened('p');
    two.stop();
    await redlock.pass(2_000);
    expect(told(member).at(-1)).toMatch(/^store lost: Locks: the Redlock node redis2:6379 does not serve: .* 1 of 3 nodes serve, which is no quorum/);
    three.start(true);
    await redlock.pass(3_000);
    expect(told(member)).toContainEqual(expect.stringMatching(/^store back: Locks: the Redlock node redis3:6379 serves again, after \d+ ms\. 2 of 3 nodes serve: there is a quorum again, after \d+ ms\.$/));
  });

  it('has its vote when it is fit, though its connection stood all the time', async () => {
    three.loading = true;
    const member = await redlock.opened('p');
    expect(told(member)).toEqual([expect.stringMatching(/^boot: Locks: 1 of 3 Redlock nodes cannot be used now \(redis3:6379: not connected yet\)/)]);
    await redlock.pass(8_000);
    three.loading = false;
    await redlock.pass(7_000);
    await requests.granted(member, 'p.1');
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });
});

describe('A node that does not serve', () => {
  it('and keeps its connection is told when it serves again, though nobody asks for a lock', async () => {
    const member = await redlock.opened('p');
    three.loading = true;
    await requests.granted(member, 'p.1');
    await redlock.pass(3_000);
    expect(told(member)).toEqual([expect.stringMatching(/^node lost: Locks: the Redlock node redis3:6379 does not serve: LOADING/)]);
    three.loading = false;
    await redlock.pass(3_000);
    expect(told(member).slice(1)).toEqual([expect.stringMatching(/^node back: Locks: the Redlock node redis3:6379 serves again, after \d+ ms\. 3 of 3 nodes serve\.$/)]);
  });
});

describe('A node whose data were flushed', () => {
  it('stays out while what it forgot may last, and votes again after that, on the connection that it had', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    one.flush();
    await requests.granted(member, 'p.1', { leaseMs: 1_000 });
    expect(requests.standing()).toEqual(['redis2', 'redis3']);
    await requests.release(member, 'p.1');
    await redlock.pass(7_000);
    expect(told(member)).toEqual([expect.stringMatching(/^forgot redis1:6379: .*The other nodes are a quorum/), 'votes redis1:6379: Locks: redis1:6379 votes again.']);
    await requests.granted(member, 'p.2');
    expect(requests.standing()).toEqual(['redis1', 'redis2', 'redis3']);
  });

  it('keeps no timer of a store that is closed', async () => {
    const member = await redlock.opened('p', { maxLeaseMs: 4_000 });
    one.flush();
    await requests.granted(member, 'p.1');
    await redlock.pass(50);
    expect(redlock.pendingTimers).toBeGreaterThan(0);
    await member.store.close();
    expect(redlock.pendingTimers).toBe(0);
  });
});

describe('A node with a new connection', () => {
  it('is not asked for a vote before it has said who it is', async () => {
    const member = await redlock.opened('p');
    const arrives = holdsUp(three, recall);
    member.ways[2]!.cut();
    await redlock.pass(500);
    expect(member.ways[2]!.sockets.size).toBeGreaterThan(0);
    two.stop();
    await redlock.pass(100);
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes.map(({ reason }) => reason)).toEqual([expect.any(String), 'not connected', 'not connected']);
    arrives();
    await redlock.pass(5_000);
    await requests.granted(member, 'p.2');
  });

  it('is listened to on the server to which its address leads now', async () => {
    const [member, other] = [await redlock.opened('p'), await redlock.opened('q')];
    const moved = new SimServer('redis4', redlock.time, 0);
    remembers(moved);
    for (const { ways } of [member, other]) {
      ways[2] = redlock.wayTo(moved);
      // The connection for messages stays.
      for (const socket of [...three.sockets]) if (socket.channels.size === 0) socket.cut(true);
    }
    await redlock.pass(2_000);
    const wakes: Wake[] = [];
    member.store.onWake((wake) => wakes.push(wake));
    for (const way of member.ways.slice(0, 2)) way.faults.dropsMessages = 1;
    await requests.granted(member, 'p.1');
    await requests.ask(other, 'q.1', { queue: true });
    await redlock.pass(50);
    expect(wakes).toEqual([{ kind: 'contended', key: 'k', id: 'p.1' }]);
  });

  it('to a server with other locks of an older version is not used until the process is restarted, and every error says why', async () => {
    const member = await redlock.opened('p');
    three.stop();
    three.put('{lock}:format', 'version=1');
    three.start(true);
    await redlock.pass(2_000);
    expect(told(member).at(-1)).toMatch(/^refused redis3:6379: Locks: redis3:6379 is not used until this process is restarted: .*found 'version=1'/);
    two.stop();
    await redlock.pass(500);
    const error = await requests.failure(member.store.acquire(requests.request('p.1')));
    expect(error.nodes[2]).toEqual({ node: 'redis3:6379', reason: expect.stringMatching(/^format 'version=1' instead of/) });
    three.stop();
    three.flush();
    remembers(three);
    three.start(true);
    await redlock.pass(5_000);
    expect((await requests.failure(member.store.inspect('k'))).nodes[2]!.reason).toMatch(/^format 'version=1'/);
  });
});

describe('A store that is closed while a node comes back', () => {
  it('says nothing of it', async () => {
    three.stop();
    const member = await redlock.opened('p');
    await redlock.pass(10_000);
    const before = told(member);
    three.start(true);
    const asked = three.commands;
    while (three.commands < asked + 3) await redlock.pass(1);
    await member.store.close();
    await redlock.pass(3_000);
    expect(told(member)).toEqual(before);
  });
});
