/** Explores the small worlds one after another, or the planted defects, and prints a line for each; `scripts/explore.mjs` starts it. */
import { defects, plant } from './defects.js';
import { RedisWorld } from './redis-world.js';
import { RedlockWorld } from './redlock-world.js';
import { explore, type Exploration } from './search.js';
import { redisWorlds, redlockWorlds } from './worlds.js';

interface Job {
  /** Only worlds or defects with this in their names. */
  readonly only: string;
  /** The most states of one world. */
  readonly most: number;
  readonly what: 'worlds' | 'quick' | 'defects';
}

const { only, most, what } = JSON.parse(process.argv[2] ?? '{}') as Job;

function line(name: string, { states, transitions, ends, deepest, seconds, cut, failure }: Exploration): void {
  const result = failure === undefined ? (cut ? 'cut' : 'all kept') : failure.promise;
  console.log(`| ${name.padEnd(45)} | ${[states, transitions, ends, deepest, seconds.toFixed(1)].map((n) => String(n).padStart(9)).join(' | ')} | ${result} |`);
}

function head(of: string): void {
  console.log(`| ${of.padEnd(45)} |    states |     steps |      ends |   deepest |   seconds | promises |`);
  console.log(`| ${'-'.repeat(45)} | --------: | --------: | --------: | --------: | --------: | --- |`);
}

function exploreWorlds(): number {
  head('small world');
  let failures = 0;
  const chosen = <P extends { readonly name: string; readonly isQuick?: boolean }>(plans: readonly P[]): P[] =>
    plans.filter(({ name, isQuick }) => name.includes(only) && (what === 'worlds' || isQuick));
  const tell = (name: string, found: Exploration): void => {
    line(name, found);
    if (found.failure === undefined) return;
    failures += 1;
    for (const step of found.failure.history) console.log(`    ${step}`);
  };
  for (const plan of chosen(redisWorlds)) tell(plan.name, explore(new RedisWorld(plan), most));
  for (const plan of chosen(redlockWorlds)) tell(plan.name, explore(new RedlockWorld(plan), most));
  return failures;
}

function plantDefects(): number {
  head('planted defect');
  const missed = defects.filter((defect) => {
    if (!defect.name.includes(only)) return false;
    const found = plant(defect, most);
    line(defect.name, found);
    return found.failure === undefined;
  });
  return missed.length;
}

process.exitCode = (what === 'defects' ? plantDefects() : exploreWorlds()) === 0 ? 0 : 1;
