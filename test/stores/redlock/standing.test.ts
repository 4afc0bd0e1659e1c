/** Where a ballot stands, as far as the nodes have said: from which node a forced release may have taken it away. */
import { describe, expect, it } from '@jest/globals';
import { RedisKeys } from '../../../lib/stores/wire/redis-keys.js';
import type { RedlockNode } from '../../../lib/stores/redlock/redlock-node.js';
import { Standing } from '../../../lib/stores/redlock/standing.js';
import { Withdrawals } from '../../../lib/stores/redlock/withdrawals.js';
import { FakeClock } from '../../support/fake-clock.js';

const LEASE_MS = 1_000;

function setUp() {
  const clock = new FakeClock();
  const standing = new Standing({ clock, withdrawals: new Withdrawals(clock) }, new RedisKeys('lock').nodeSpotOf('k'), 'p.1/1');
  const node = { name: 'a', connected: true, runId: 'first' };
  return { standing, node: node as typeof node & RedlockNode, now: clock.now() };
}

describe('A ballot that a node does not have', () => {
  it('was taken away there when the node had it, goes on running, and would have it still', () => {
    const { standing, node, now } = setUp();
    standing.asks(node);
    standing.keptBy(node, now + LEASE_MS);
    expect([now, now + LEASE_MS - 1, now + LEASE_MS].map((at) => standing.wasTakenFrom(node, at))).toEqual([true, true, false]);
  });

  it('was not taken away there when the node was restarted since it had it, or refused it later', () => {
    const { standing, node, now } = setUp();
    standing.asks(node);
    standing.keptBy(node, now + LEASE_MS);
    node.runId = 'second';
    expect(standing.wasTakenFrom(node, now)).toBe(false);
    node.runId = 'first';
    standing.refusedBy(node);
    expect(standing.wasTakenFrom(node, now)).toBe(false);
  });

  it('may have been taken away there when the node was asked and has not answered, and not when it never was asked', () => {
    const { standing, node, now } = setUp();
    standing.lasts(LEASE_MS);
    expect(standing.mayBeTakenFrom(node, now)).toBe(false);
    standing.asks(node);
    const { endsAt } = standing;
    expect([now, endsAt - 1, endsAt].map((at) => standing.mayBeTakenFrom(node, at))).toEqual([true, true, false]);
    expect(standing.wasTakenFrom(node, now)).toBe(false);
    standing.keptBy(node, now + LEASE_MS);
    expect([now, now + LEASE_MS].map((at) => standing.mayBeTakenFrom(node, at))).toEqual([true, false]);
    node.runId = 'second';
    expect(standing.mayBeTakenFrom(node, now)).toBe(false);
  });
});
