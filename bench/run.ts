/**
 * Asks every question, or those named on the command line, and writes what was found.
 */
import type { Question } from './harness/answer.js';
import { startServer } from './harness/redis.js';
import { circumstances, print, save, writeDocs, type Finding } from './harness/report.js';
import { costsOfACall } from './questions/costs-of-a-call.js';
import { hotKeyFleet } from './questions/hot-key-fleet.js';
import { hotKeyOneProcess } from './questions/hot-key-one-process.js';
import { idle } from './questions/idle.js';
import { latency } from './questions/latency.js';
import { lostElements } from './questions/lost-elements.js';
import { manyLeases } from './questions/many-leases.js';
import { manyWaiters } from './questions/many-waiters.js';
import { memory } from './questions/memory.js';
import { permits } from './questions/permits.js';
import { readWrite } from './questions/read-write.js';
import { redlock } from './questions/redlock.js';
import { uncontended } from './questions/uncontended.js';

const questions: readonly Question[] = [costsOfACall, uncontended, latency, hotKeyOneProcess, hotKeyFleet, manyWaiters, manyLeases, memory, readWrite, permits, redlock, lostElements, idle];
const names = questions.map(({ name }) => name);

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`No question is called ${unknown.join(', ')}. There are: ${names.join(', ')}.`);
  process.exit(1);
}

const server = await startServer();
const { version } = server;
await server.stop();
for (const question of questions.filter(({ name }) => wanted.length === 0 || wanted.includes(name))) {
  const about = circumstances(version);
  console.log(`\n${question.name}: begins at a load of ${about.load} per core`);
  const began = performance.now();
  const finding: Finding = { question: question.name, ...about, answers: await question.answer() };
  print(finding);
  console.log(`  took ${Math.round((performance.now() - began) / 1000)} s`);
  await save(finding);
}
console.log(`\nWritten: ${await writeDocs(names)}`);
process.exit(0);
