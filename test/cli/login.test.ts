/** The command line where Redis wants a user and a password, or is found through Sentinels or by TLS. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { readArguments, UsageError, type Target } from '../../lib/cli/arguments.js';
import { askPassword } from '../../lib/cli/password.js';
import { serversOf } from '../../lib/cli/servers.js';
import { startRedis } from '../support/redis-server.js';
import { startSentinel } from '../support/redis-sentinel.js';
import { holdfast, programPath } from './program.js';
import { forAll } from '../support/started.js';

function targetOf(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Target {
  const order = readArguments(['list', ...args], environment);
  if (typeof order === 'string') throw new Error('it is a command');
  return order.target;
}

describe('holdfast on a server with users', () => {
  const redis = forAll(startRedis);
  beforeAll(async () => {
    await redis.command('ACL', 'SETUSER', 'looker', 'on', '>secret', '~*', '&*', '+@all');
    await redis.command('ACL', 'SETUSER', 'default', 'off');
  });

  it('takes the password from the environment, so that it stands in no list of processes', async () => {
    const ask = ['list', '--redis', redis.url, '--username', 'looker'];
    expect(await holdfast(ask, undefined, { REDIS_PASSWORD: 'secret' })).toMatchObject({ code: 1, out: '' });
    expect(await holdfast(ask, undefined, { REDIS_PASSWORD: 'wrong' })).toMatchObject({ code: 3, err: expect.stringContaining('WRONGPASS') });
  });
});

describe('holdfast --sentinel', () => {
  it('looks at the master that the Sentinels name', async () => {
    await using group = await startSentinel();
    const [watcher] = group.sentinels;
    expect(await holdfast(['list', '--sentinel', 'holdfast', '--redis', watcher!.url])).toMatchObject({ code: 1, out: '' });
    expect(await holdfast(['list', '--sentinel', 'another', '--redis', watcher!.url])).toMatchObject({ code: 3 });
  });
});

describe('A Ctrl-C before holdfast is connected', () => {
  it('ends the program, so that it takes no lock away after that', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const child = spawn(process.execPath, [programPath(), 'release', 'k', '--fence', '7', '--yes', '--redis', `redis://127.0.0.1:${port}`], {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    server.once('connection', () => child.kill('SIGINT'));
    expect(await once(child, 'close')).toEqual([null, 'SIGINT']);
    server.close();
  });
});

describe('The password', () => {
  it('is the first line of standard input where there is no terminal', async () => {
    const input = Object.assign(new PassThrough(), { isTTY: false });
    const asked = askPassword(input as unknown as NodeJS.ReadStream, new PassThrough());
    input.end('s3cret\nnot this\n');
    expect(await asked).toBe('s3cret');
  });

  it.each([
    ['a Ctrl-C on a terminal', true, '\u0003'],
    ['an input without a line', false, ''],
  ])('that is not given, because of %s, is no empty one: the command does not run', async (_, isTTY, text) => {
    const input = Object.assign(new PassThrough(), { isTTY });
    const asked = askPassword(input as unknown as NodeJS.ReadStream, new PassThrough());
    input.end(text);
    await expect(asked).rejects.toThrow(new UsageError('no password was given'));
  });

  it('in a URL comes before the one for all servers', async () => {
    const target = targetOf(['--redis', 'redis://a:of-a@a', '--redis', 'redis://b', '--redis', 'redis://c', '--username', 'u'], { REDIS_PASSWORD: 'of-all' });
    expect(await serversOf(target)).toMatchObject([
      { host: 'a', username: 'a', password: 'of-a' },
      { host: 'b', username: 'u', password: 'of-all' },
      { host: 'c', username: 'u', password: 'of-all' },
    ]);
  });
});

describe('TLS', () => {
  it('is for all servers, and for Sentinels as for the master', async () => {
    expect(await serversOf(targetOf(['--redis', 'redis://a', '--tls']))).toMatchObject([{ host: 'a', tls: {} }]);
    expect(await serversOf(targetOf(['--redis', 'redis://a:1', '--tls', '--cluster'], { REDIS_PASSWORD: 'p' }))).toMatchObject([{ cluster: [{ host: 'a', port: 1 }], options: { redisOptions: { tls: {}, password: 'p' } } }]);
    const behind = targetOf(['--redis', 'redis://s:26379/2', '--tls', '--sentinel', 'orders'], { REDIS_PASSWORD: 'p', REDIS_SENTINEL_PASSWORD: 'q' });
    const login = { db: 2, password: 'p', sentinelPassword: 'q', tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true };
    expect(await serversOf(behind)).toMatchObject([{ name: 'orders', sentinels: [{ host: 's', port: 26_379 }], ...login }]);
  });

  it('trusts the certificates of a file, and says when it cannot be read', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-ca-'));
    const file = join(folder, 'ca.pem');
    await writeFile(file, 'certificate');
    expect(await serversOf(targetOf(['--redis', 'redis://a', '--cacert', file]))).toEqual([expect.objectContaining({ tls: { ca: Buffer.from('certificate') } })]);
    await rm(folder, { recursive: true });
    await expect(serversOf(targetOf(['--redis', 'redis://a', '--cacert', file]))).rejects.toMatchObject({ name: 'UsageError', message: expect.stringContaining('--cacert: ENOENT') });
  });
});

describe('The command line', () => {
  it.each<[readonly string[], string]>([
    [['--redis', 'redis://a', '--cluster', '--sentinel', 'x'], 'exclude each other'],
    [['--redis', 'redis://a', '--sentinel', ''], 'name of the master'],
  ])('is refused: %j', (args, words) => expect(() => targetOf(args)).toThrow(words));
});
