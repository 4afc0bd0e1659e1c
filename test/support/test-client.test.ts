/** HOLDFAST_TEST_CLIENT reaches the processes of tests too, so that a run over node-redis is one in all of them. */
import { afterEach, expect, it } from '@jest/globals';
import { CrewMember } from '../faults/crew/crew.js';
import { startCandidate } from './candidate.js';
import { DrivenProcess } from './driven-process.js';
import { startRedis } from './redis-server.js';
import { TEST_CLIENT } from './test-client.js';
import { startWorker } from './worker.js';
import { forAll } from './started.js';

let started: DrivenProcess | undefined;
const redis = forAll(startRedis);
afterEach(() => started?.kill());

async function crewMember(): Promise<DrivenProcess> {
  const member = new CrewMember();
  await member.ready;
  await member.open({ redis: redis.url, client: TEST_CLIENT }, { name: 'run/p0', resourceUrl: redis.url });
  return member;
}

async function driven(script: string, given: object): Promise<DrivenProcess> {
  const one = new DrivenProcess(script, given);
  await one.ready;
  return one;
}

it.each<[string, () => Promise<DrivenProcess>]>([
  ['worker', () => startWorker({ redis: redis.url })],
  ['candidate', () => startCandidate({ redis: redis.url })],
  ['process with tickets', () => driven('test/support/ticket-process.mjs', { options: { redis: redis.url } })],
  ['process at the port', () => driven('test/soak/port-process.mjs', { url: redis.url, name: 'a' })],
  ['member of a crew', crewMember],
])('A %s locks by the package that the variable names', async (_, start) => {
  started = await start();
  expect(await started.ask('hasNodeRedis')).toBe(TEST_CLIENT === 'redis');
});
