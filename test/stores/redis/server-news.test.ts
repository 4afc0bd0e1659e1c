/** What a store tells the log of its server, without a server. */
import { describe, expect, it } from '@jest/globals';
import type { Finding } from '../../../lib/core/port/lock-events.js';
import { canTellWhoListens, warnOfBlindness } from '../../../lib/stores/redis/boot-probe.js';
import type { RemoteRedis } from '../../../lib/stores/redis/remote-redis.js';
import { outageNews } from '../../../lib/stores/wire/store-failure.js';

function reports(): { told: Finding[]; report: (finding: Finding) => void } {
  const told: Finding[] = [];
  return { told, report: (finding) => void told.push(finding) };
}

describe('The news of an outage', () => {
  it('is a warning when it begins and good news when it ends', () => {
    const { told, report } = reports();
    const news = outageNews('a:6379', report);
    news.away('connect ECONNREFUSED.');
    news.back(1_234);
    expect(told).toEqual([
      {
        kind: 'store lost',
        level: 'warning',
        message:
          'Locks: a:6379 does not serve: connect ECONNREFUSED. Locks that are held stay held until their leases end, ' +
          'calls wait as long as their waitMs allows, and the server is retried continuously.',
      },
      { kind: 'store back', level: 'info', message: 'Locks: a:6379 serves again, after 1234 ms.' },
    ]);
  });
});

describe('A server that does not say who it is', () => {
  it('is warned of where something is recovered, and only there', () => {
    const { told, report } = reports();
    const warn = (areBlind: boolean, recoveryMs: number): void => warnOfBlindness({ memories: { areBlind }, node: 'a:6379', recoveryMs, report } as RemoteRedis);
    warn(true, 0);
    warn(false, 1);
    expect(told).toEqual([]);
    warn(true, 1);
    expect(told).toEqual([{ kind: 'no recovery on a:6379', level: 'warning', message: expect.stringContaining('a:6379 does not tell its user who it is') }]);
  });
});

describe('A server that is asked who listens', () => {
  const { told, report } = reports();

  /** Asks a server that counts so many subscribers, or answers with an error. */
  async function ask(answer: number | Error, isCluster = false) {
    const asked: unknown[] = [];
    const command = async (words: string[]) => {
      if (answer instanceof Error) throw answer;
      asked.push(words);
      return ['channel', answer];
    };
    const can = await canTellWhoListens({ runner: { command }, isCluster, node: 'a:6379', keys: { channel: () => 'channel' }, report } as unknown as RemoteRedis);
    return { can, asked };
  }

  it('can tell when it counts at least one on the channel of this process', async () => {
    expect(await ask(1)).toEqual({ can: true, asked: [['pubsub', 'NUMSUB', 'channel']] });
    expect((await ask(2)).can).toBe(true);
    expect((await ask(0)).can).toBe(false);
    expect(told).toEqual([]);
  });

  it('is not asked in a Cluster, where a node knows only its own subscribers', async () => {
    expect(await ask(1, true)).toEqual({ can: false, asked: [] });
  });

  it('and refuses is a warning that says what to allow', async () => {
    expect((await ask(new Error('NOPERM this user has no permissions'))).can).toBe(false);
    expect(told).toEqual([{ kind: 'pubsub|numsub on a:6379', level: 'warning', message: expect.stringMatching(/^Locks: a:6379 .*: NOPERM this user has no permissions\)\.$/) }]);
  });
});
