/** downgrade.lua and force-release.lua on a node of a Redlock, where there is no queue, but marks of those who wait. */
import { beforeAll, describe, expect, it } from '@jest/globals';
import { downgradeCall, forceReleaseCall, readForceRelease, type BuiltCall, type ReplyItems } from '../../lib/stores/wire/lua.generated.js';
import { UNTIL_TOLD_MS } from '../../lib/stores/wire/redis-keys.js';
import { NEVER } from '../../lib/stores/wire/boot-probe.js';
import { NodeScripts } from '../support/node-scripts.js';
import { forAll } from '../support/started.js';

const node = forAll(() => NodeScripts.start());
beforeAll(async () => {
  await node.makeWhole();
  node.known = await node.memoryOf('n1');
});

/** Higher than any before, so that a vote is granted in the shortest way if it can be. */
let proposal = 2_000_000_000_000_000;
const PATIENT = { waitedMs: 1_000, patienceMs: 20_000 } as const;

function run({ script, keys, args }: BuiltCall): Promise<unknown> {
  return node.client.eval(script.source, keys.length, ...keys, ...args);
}

async function forceRelease(key: string, fence?: number, notAfter = NEVER): Promise<string> {
  return readForceRelease((await run(forceReleaseCall(node.keys.spotOf(key), { fence, notAfter, floor: 0, recoveryMs: UNTIL_TOLD_MS }))) as ReplyItems).kind;
}

/** After the lock was given back: another process comes, and then the one that waits. */
async function expectTurnOf(process: string, key: string): Promise<void> {
  proposal += 10;
  expect(await node.vote(key, 'late.1', { proposal })).toEqual([0, expect.any(Number), -1]);
  expect((await node.vote(key, `${process}.2`, PATIENT))[0]).toBe(1);
}

describe('On a node of a Redlock, who has waited longest is the next to have the lock', () => {
  it('when a writer was downgraded before it gave the lock back', async () => {
    await node.vote('n1', 'p.1', { proposal });
    expect((await node.vote('n1', 'q.1', PATIENT))[0]).toBe(0);
    expect(await run(downgradeCall(node.keys.spotOf('n1'), { id: 'p.1', floor: 0, recoveryMs: UNTIL_TOLD_MS }))).toBe(1);
    expect(await node.release('n1', 'p.1')).toBe(1);
    await expectTurnOf('q', 'n1');
  });

  it('when one of several readers lost the lock to an operator before the others gave it back', async () => {
    const [, , fence] = await node.vote('n2', 'p.1', { mode: 'r', proposal: proposal + 5, fences: 2 });
    await node.vote('n2', 's.1', { mode: 'r' });
    expect((await node.vote('n2', 'q.1', PATIENT))[0]).toBe(0);
    expect(await forceRelease('n2', Number(fence), 1)).toBe('late');
    expect(await forceRelease('n2', Number(fence))).toBe('taken');
    expect(await node.release('n2', 's.1')).toBe(1);
    await expectTurnOf('q', 'n2');
  });

  it('also when an operator takes the lock away that is kept for it, which nobody holds', async () => {
    await node.vote('n3', 'p.1', { proposal });
    await node.vote('n3', 'q.1', PATIENT);
    expect(await node.release('n3', 'p.1')).toBe(1);
    expect(await forceRelease('n3')).toBe('none');
    await expectTurnOf('q', 'n3');
  });
});
