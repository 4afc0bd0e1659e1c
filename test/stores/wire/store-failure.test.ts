/** What the store makes of the errors of the clients. */
import { connect } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { causeOf, isTryAgain, storeFailure } from '../../../lib/stores/wire/store-failure.js';
import { freePort } from '../../support/free-port.js';
import { closeStores, makeRedisStore } from '../../support/redis-store.js';

afterEach(closeStores);

/** What Node says of a name with two addresses that both refuse the connection: an error whose own message is empty. */
async function refusedTwice(): Promise<Error> {
  const port = await freePort();
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  const socket = connect({ host: 'redis.example', port, autoSelectFamily: true, lookup: (_host, _options, found) => found(null, addresses) });
  return new Promise((resolve) => socket.once('error', resolve));
}

describe('a connection that is not there', () => {
  it('is told once, when its last error says no more than that', () => {
    const failure = storeFailure(new Error('not connected'), { what: 'acquire', key: 'k' }, { node: 'redis.example:6379', lastError: new Error('Connection is closed.') });
    expect(failure.nodes[0]!.reason).toBe('not connected');
  });
});

describe('a connection that both addresses of a name refuse', () => {
  const both = /^connect ECONNREFUSED 127\.0\.0\.1:\d+; connect ECONNREFUSED 127\.0\.0\.2:\d+$/;

  it('is told with the reasons of both', async () => {
    const error = await refusedTwice();
    expect(error.message).toBe('');
    const failure = storeFailure(new Error('not connected'), { what: 'acquire', key: 'k' }, { node: 'redis.example:6379', lastError: error });
    expect(failure.nodes[0]!.reason).toMatch(/^not connected \(connect ECONNREFUSED 127\.0\.0\.1:\d+; connect ECONNREFUSED 127\.0\.0\.2:\d+\)$/);
    expect(causeOf(error)).toMatchObject({ code: 'ECONNREFUSED', message: expect.stringMatching(both) });
  });

  it('is told by its code where nothing else is said', () => {
    const silent = Object.assign(new Error(''), { code: 'ECONNRESET' });
    expect(storeFailure(silent, { what: 'acquire', key: 'k' }, { node: 'n' }).nodes[0]!.reason).toBe('ECONNRESET');
  });
});

describe('a command for several keys', () => {
  it.each([
    ['TRYAGAIN Multiple keys request during rehashing of slot', true],
    ['MOVED 12 127.0.0.1:7001', true],
    ['ASK 12 127.0.0.1:7001', true],
    ['CLUSTERDOWN The cluster is down', false],
    ['CLUSTERDOWN Hash slot not served', false],
  ])('%s: is sent again key by key: %s', (message, again) => expect(isTryAgain(new Error(message))).toBe(again));
});

describe('a walk over all locks', () => {
  it('is told that no master is there, and not that there are no locks', async () => {
    const store = makeRedisStore({ cluster: [{ host: '127.0.0.1', port: await freePort() }] }, 'p');
    await expect(store.list().next()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, message: expect.stringContaining('list failed on the Cluster: not connected') });
  });
});
