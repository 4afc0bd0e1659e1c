import type { RedisServer } from './redis-server.js';

/** What the server's processor did for one act, in ms: the least of some, which no other work has disturbed. */
export async function serverTimeOf(server: RedisServer, act: () => Promise<unknown>): Promise<number> {
  const client = server.client();
  const used = async (): Promise<number> => {
    const text = await client.info('cpu');
    const [user, system] = ['user', 'sys'].map((kind) => Number(new RegExp(`used_cpu_${kind}:([\\d.]+)`).exec(text)?.[1]));
    return 1_000 * (user! + system!);
  };
  const times: number[] = [];
  for (let round = 0; round < 10; round++) {
    const before = await used();
    await act();
    times.push((await used()) - before);
  }
  client.disconnect();
  return Math.min(...times);
}
