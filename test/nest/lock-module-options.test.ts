/** The options of a lock module: which are taken, what they mean, and which are refused in words. */
import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../lib/index.js';
import { recoveryOf, lockHome, type LockModuleOptions } from '../../lib/nest/lock-module-options.js';

const REDIS = 'redis://redis.example';
const given = (options: object, environment = 'test') => lockHome(options as LockModuleOptions, environment);

describe('Where the locks of a module live', () => {
  it('is this process when that is said, and when no option is given a value, which is told apart', () => {
    expect(given({ embedded: true }, 'production')).toEqual({ kind: 'embedded', implied: false });
    for (const options of [{}, { leaseMs: undefined }]) expect(given(options)).toEqual({ kind: 'embedded', implied: true });
    expect(() => given({}, 'production')).toThrow(/NODE_ENV is production/);
    expect(() => given({ embedded: false })).toThrow(/no option says where the locks live/);
  });

  it('is what redis says: one server, or several', () => {
    expect(given({ redis: REDIS, embedded: false })).toEqual({ kind: 'redis', target: REDIS });
    expect(given({ redis: [REDIS, REDIS, REDIS] })).toEqual({ kind: 'redlock', targets: [REDIS, REDIS, REDIS] });
  });

  it('is elsewhere for a module that has only a route, with what has a meaning for it', () => {
    const route = () => 'a';
    expect(given({ route })).toEqual({ kind: 'elsewhere' });
    expect(given({ route, embedded: false, describeHolders: false, strictOverrides: true, leaseMs: undefined })).toEqual({ kind: 'elsewhere' });
    expect(given({ route, embedded: true })).toEqual({ kind: 'embedded', implied: false });
    expect(() => given({ route, prefix: 'a' })).toThrow(/^LockModule options: prefix would be ignored/);
  });
});

describe('An option of a lock module', () => {
  it.each<[object, string]>([
    [{ recoveryMs: -1 }, `expected recoveryMs to be a whole number from 0, got -1 ('lease' stands for maxLeaseMs)`],
    [{ recoveryMs: 0.5 }, 'got 0.5'],
    [{ recoveryMs: '5' }, 'expected recoveryMs'],
    [{ bootTimeoutMs: 0 }, 'expected bootTimeoutMs to be a whole number from 1, got 0'],
    [{ bootTimeoutMs: -1 }, 'got -1'],
    [{ bootTimeoutMs: 0.5 }, 'got 0.5'],
    [{ describeHolders: 'yes' }, `expected describeHolders to be true or false, got 'yes'`],
    [{ strictServer: 1 }, 'expected strictServer to be true or false, got 1'],
    [{ strictOverrides: 'no' }, 'expected strictOverrides to be true or false'],
    [{ client: 'valkey' }, `expected client to be 'ioredis' or 'redis', got 'valkey'`],
    [{ prefix: 'a b' }, 'expected prefix to be'],
    [{ name: 'billing' }, `'name' belongs beside useFactory, not into its result`],
    [{ isGlobal: true }, `'isGlobal' belongs beside useFactory`],
    [{ ttl: 5 }, `unknown option 'ttl'`],
    [{ host: 'redis.example', port: 6379 }, 'how to connect belongs into the option redis: { redis: { host: …, port: … } }'],
  ])('that cannot be meant is refused: %j', (options, words) => {
    expect(() => given({ embedded: true, ...options })).toThrow(LockUsageError);
    expect(() => given({ embedded: true, ...options })).toThrow(words);
  });
});

describe('The recovery of a server that forgot', () => {
  it.each<[LockModuleOptions['recoveryMs'], string | undefined, number, number]>([
    [undefined, undefined, 60_000, 1_000],
    [undefined, 'production', 500, 500],
    [undefined, 'test', 60_000, 0],
    [0, 'production', 60_000, 0],
    [300, 'test', 60_000, 300],
    [60_000, undefined, 60_000, 60_000],
    ['lease', 'test', 30_000, 30_000],
  ])('by recoveryMs %s where NODE_ENV is %s and the longest lease %d ms takes %d ms', (recoveryMs, environment, maxLeaseMs, forMs) => {
    expect(recoveryOf({ recoveryMs }, maxLeaseMs, environment)).toBe(forMs);
  });

  it('is no longer than any lease', () => {
    expect(() => recoveryOf({ recoveryMs: 501 }, 500, undefined)).toThrow(
      new LockUsageError(`LockModule options: recoveryMs (501) is longer than maxLeaseMs (500); 'lease' is the longest that can be of use.`),
    );
  });
});
