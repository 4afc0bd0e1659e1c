/** Which Sentinels are asked and heard, on virtual time, where a test speaks for them. */
import { expect, it } from '@jest/globals';
import type { Master } from '../../../lib/stores/wire/connections.js';
import type { Client, Source } from '../../../lib/stores/wire/server-connection.js';
import { routeBySentinels } from '../../../lib/stores/wire/sentinel-master.js';
import { FakeClock } from '../../support/fake-clock.js';

const [A, NAMED] = ['a', 'named'].map((host) => ({ host, port: 26_379 })) as [{ host: string; port: number }, { host: string; port: number }];

it('forgets a Sentinel that the others cannot reach, or know no more, and asks those that were named before those that were told', async () => {
  const [asked, gone, heard] = [[] as string[], new Set<string>(), new Map<Client, string>()];
  let told = [['b', 'sentinel'], ['c', 'sentinel']];
  const make: Source['make'] = ({ address: { host } }) => {
    const client: Client = {
      sender: { call: async (_, what) => (what === 'SENTINELS' ? told.map(([ip, flags]) => ['ip', ip, 'port', '26379', 'flags', flags]) : ['m', 6_379]) },
      connect: () => (asked.push(host!), gone.has(host!) ? Promise.reject(new Error('connect EHOSTUNREACH')) : Promise.resolve()),
      subscribe: async () => void heard.set(client, host!),
      destroy: () => void heard.delete(client),
    };
    return client;
  };
  const clock = new FakeClock();
  const route = routeBySentinels('mymaster', [A, NAMED], { address: {}, make }, { address: {}, make }, undefined);
  const master = route.begin({ clock, timeoutMs: 500 }, () => {}) as Master;
  const locate = async (): Promise<string[]> => {
    asked.length = 0;
    expect(await clock.runUntil(master.locate())).toMatchObject({ address: { host: 'm', port: 6_379 } });
    await clock.advance(10);
    return [...asked];
  };
  expect(await locate()).toEqual(['a', 'a', 'named', 'b', 'c']);
  expect([...heard.values()]).toEqual(['a', 'named', 'b', 'c']);
  told = [['c', 's_down,sentinel,disconnected']];
  await locate();
  expect([...heard.values()]).toEqual(['a', 'named']);
  told = [['b', 'sentinel']];
  await locate();
  gone.add('a').add('named');
  expect(await locate()).toEqual(['a', 'named', 'b']);
  gone.add('b').delete('named');
  expect(await locate()).toEqual(['b', 'a', 'named']);
  master.close!();
  expect([...heard.values()]).toEqual([]);
});
