/** Servers behind TLS with a certificate that its owner signed: locks are had by either client, and only by who trusts that certificate. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { connectTo } from '../../../lib/stores/wire/connect-to.js';
import type { ClientPackage, RedisTarget } from '../../../lib/stores/wire/redis-target.js';
import { holdfast } from '../../cli/program.js';
import { acquireRequest } from '../../support/acquire-request.js';
import { makeCertificate } from '../../support/own-certificate.js';
import { startCluster } from '../../support/redis-cluster.js';
import { startSentinel } from '../../support/redis-sentinel.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { closeStores, openRedisStore } from '../../support/redis-store.js';
import { startTlsProxy, type TlsProxy } from '../../support/tls-proxy.js';
import { forAll } from '../../support/started.js';

const certificate = makeCertificate();
const tls = { ca: certificate.cert };

const server = forAll(startRedis);
const group = forAll(startSentinel);
const cluster = forAll(startCluster);
const proxy = forAll(() => startTlsProxy(server.port, certificate));
const proxies: TlsProxy[] = [];

/** Each server's address to where it speaks TLS. */
async function inFrontOf(servers: readonly RedisServer[]): Promise<Record<string, { host: string; port: number }>> {
  const entries = servers.map(async ({ port }) => {
    const started = await startTlsProxy(port, certificate);
    proxies.push(started);
    return [`127.0.0.1:${port}`, { host: '127.0.0.1', port: started.port }] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

afterEach(closeStores);
afterAll(() => Promise.all(proxies.map((each) => each.stop())));

async function locksOn(target: RedisTarget, client?: ClientPackage): Promise<void> {
  const store = await openRedisStore('', 'p', { connection: await connectTo(target, client) });
  const requests = Array.from({ length: 12 }, (_, n) => acquireRequest({ key: `k${n}`, notAfter: performance.now() + 5_000 }));
  for (const request of requests) {
    expect(await store.acquire(request)).toMatchObject({ kind: 'granted' });
    expect(await store.release(request)).toBe('released');
  }
}

describe.each(['ioredis', 'redis'] as const)('Behind TLS, with %s,', (client) => {
  it('one Redis is locked on, with the certificate that was given', () => locksOn({ host: '127.0.0.1', port: proxy.port, tls }, client));

  it('the master that Sentinels name is locked on, and the Sentinels are asked by TLS as well', async () => {
    const natMap = await inFrontOf(group.servers);
    const sentinels = Object.values(await inFrontOf(group.sentinels));
    await locksOn({ sentinels, name: 'holdfast', natMap, tls, sentinelTLS: tls, enableTLSForSentinelMode: true }, client);
  });

  it('every master of a Cluster is locked on', async () => {
    const natMap = await inFrontOf(cluster.masters);
    await locksOn({ cluster: Object.values(natMap), options: { natMap, redisOptions: { tls } } }, client);
  });

  it('a certificate that nobody vouches for is refused at boot, in words', async () => {
    await expect(locksOn(proxy.url, client)).rejects.toMatchObject({ code: 'LOCK_STORE', message: expect.stringMatching(/127\.0\.0\.1:\d+.*self-signed certificate/) });
  });
});

describe('A client of the application that speaks TLS', () => {
  it.each<[string, () => unknown]>([
    ['ioredis', () => new Redis({ host: '127.0.0.1', port: proxy.port, tls, lazyConnect: true })],
    ['redis', () => createClient({ socket: { host: '127.0.0.1', port: proxy.port, tls: true, ca: certificate.cert } })],
    ['redis', () => createClient({ url: proxy.url, socket: { tls: true, ca: certificate.cert } })],
  ])('tells its certificate with its address: %s', async (_, given) => void (await locksOn(given() as RedisTarget)));
});

describe('holdfast --tls', () => {
  it('looks at a server whose certificate is in the file of --cacert', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-ca-'));
    const file = join(folder, 'ca.pem');
    await writeFile(file, certificate.cert);
    const at = ['list', '--redis', `redis://127.0.0.1:${proxy.port}`, '--tls'];
    expect(await holdfast([...at, '--cacert', file])).toMatchObject({ code: 1, out: '' });
    expect(await holdfast(at)).toMatchObject({ code: 3, err: expect.stringContaining('self-signed certificate') });
    await rm(folder, { recursive: true });
  });
});
