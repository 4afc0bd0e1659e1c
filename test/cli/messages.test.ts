/** What the program says to people, mostly on standard error: whom a release would hit, and nothing that steers the terminal. */
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { systemClock } from '../../lib/core/port/clock.js';
import { RedisKeys } from '../../lib/stores/wire/redis-keys.js';
import { startRedis } from '../support/redis-server.js';
import { closeStores, openRedisStore, PATIENT } from '../support/redis-store.js';
import { holdfast, programPath, type Finished } from './program.js';
import { forAll } from '../support/started.js';

/** Sets the title of a terminal. */
const STEERING = '\u001b]0;owned\u0007';
const SHOWN = '?]0;owned?';
/** As errors and findings of the library write it. */
const WRITTEN = String.raw`\u001b]0;owned\u0007`;

const redis = forAll(startRedis);
beforeAll(() => void programPath()); // compiles the program once

afterEach(closeStores);

const ask = (...args: string[]): Promise<Finished> => holdfast([...args, '--redis', redis.url]);

/** All control characters but the end of a line. */
function steeringIn({ out, err }: Finished): string[] {
  return `${out}${err}`.match(/(?!\n)\p{Cc}/gu) ?? [];
}

describe('a message of holdfast', () => {
  const key = `order:${STEERING}`;

  it('shows the control characters in a key that it is given as ?', async () => {
    const released = await ask('release', key, '--fence', '7', '--yes');
    expect(released).toMatchObject({ code: 1, out: `'order:${SHOWN}' has no holder with fence 7; nothing was changed.\n` });
    expect(steeringIn(released)).toEqual([]);
  });

  it('shows those in a damaged lock as text, both as an error and as what a list leaves out', async () => {
    const { lockKey } = new RedisKeys('lock').spotOf(key);
    await redis.command('HSET', lockKey, 'field', 'of another program');
    const inspected = await ask('inspect', key);
    expect(inspected).toMatchObject({ code: 3, err: expect.stringContaining(WRITTEN) });
    const listed = await ask('list');
    expect(listed.err).toContain('A list of locks leaves out one that is damaged');
    expect(listed.err).toContain(WRITTEN);
    expect([inspected, listed].flatMap(steeringIn)).toEqual([]);
    await redis.command('DEL', lockKey);
  });

  it('shows those in a command line that is wrong as ?, and ends with a line that says where help is', async () => {
    const answers = [await ask(STEERING), await ask('list', `--${STEERING}`), await ask('inspect', 'a', `b${STEERING}`), await ask('release', key)];
    for (const answer of answers) expect(answer).toMatchObject({ code: 2, err: expect.stringMatching(/^holdfast: [^\n]*\?\]0;owned\?[^\n]*\.\nSee holdfast --help\.\n$/) });
    expect(answers.flatMap(steeringIn)).toEqual([]);
  });

  it('of several lines stays readable: Node explains an option without its value in three', async () => {
    const { code, err } = await ask('list', '--prefix', '--waited');
    expect(code).toBe(2);
    expect(err).toMatch(/^holdfast: Option '--prefix' argument is ambiguous\. Did you forget [^?]*\? To specify [^\n?]*\nSee holdfast --help\.\n$/);
  });
});

describe('holdfast release without --yes', () => {
  it('names each holder of a lock with permits, also one that the board does not list', async () => {
    const store = await openRedisStore(redis.url, 'web-1:12:abcdefgh', PATIENT);
    const base = { key: 'smtp', mode: 'write', permits: 9, leaseMs: 60_000, queue: true, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
    for (let n = 1; n <= 9; n += 1) {
      const outcome = await store.acquire({ ...base, label: `MailService.send${n}`, id: `web-1:12:abcdefgh.${n}`, notAfter: systemClock.now() + 30_000 });
      expect(outcome.kind).toBe('granted');
    }
    const { holders } = await store.inspect('smtp');
    const answers = await Promise.all(holders.map(({ fence }) => ask('release', 'smtp', '--fence', String(fence))));
    expect(answers.map(({ err }) => /from (\S+) on web-1:12\./.exec(err)?.[1])).toEqual(holders.map(({ label }) => label));
    expect((await store.inspect('smtp')).holders).toHaveLength(9);
  });

  it('says only that nobody has this fence, where that is so', async () => {
    const told = { code: 1, out: "'imap' has no holder with fence 7; nothing was changed.\n", err: '' };
    expect(await ask('release', 'imap', '--fence', '7')).toMatchObject(told);
    const json = await ask('release', 'imap', '--fence', '7', '--json');
    expect(json).toMatchObject({ code: 1, err: '' });
    expect(JSON.parse(json.out)).toEqual({ key: 'imap', fence: 7, released: false });
  });
});
