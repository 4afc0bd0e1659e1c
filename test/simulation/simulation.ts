/**
 * One seeded simulation from beginning to end: processes join and work while the nemesis strikes, until enough was asked of
 * the store; then all faults end, everybody must be served, and nothing may be left.
 */
import { checkHistory } from '../model/history-checker.js';
import { formatHistory } from '../model/history.js';
import { Callers } from './callers.js';
import { checkTurns } from './fair-turns.js';
import { LifeSigns } from './life-signs.js';
import { Nemesis } from './nemesis.js';
import { planOf, type Plan, type Topology } from './plan.js';
import { Random } from './random.js';
import { Remains } from './remains.js';
import { World } from './world.js';

export interface Run {
  readonly plan: Plan;
  readonly violations: readonly string[];
  readonly storeCalls: number;
  readonly commands: number;
  readonly holds: number;
  readonly virtualMs: number;
  /** What happened and what was heard, for people. */
  readonly account: () => string;
}

export interface SimulationOptions {
  /** So much is asked of the store before all faults end. */
  readonly storeCalls?: number;
  /** Print what happens while it does. */
  readonly trace?: boolean;
  readonly profile?: string | undefined;
}

/** So long a run may take before it is healed, in virtual ms. */
const LONGEST_MS = 180_000;
/** Everybody is answered within this after the last fault, in virtual ms. */
const ANSWERED_WITHIN_MS = 60_000;

let current: World | undefined;
/** A rejection that nobody handles belongs to the run that is under way. */
process.on('unhandledRejection', (error) => {
  current?.violations.push(`unhandled rejection: ${String((error as Error)?.stack ?? error)}`);
});

export async function simulate(seed: number, topology: Topology, { storeCalls = 200, trace = false, profile }: SimulationOptions = {}): Promise<Run> {
  const random = new Random(seed);
  const world = new World(planOf(seed, topology, random, storeCalls, profile), random, trace);
  const systemRandom = Math.random;
  Math.random = random.fork().next;
  current = world;
  try {
    await runToItsEnd(world);
  } catch (error) {
    world.violations.push(`the run ended with ${String((error as Error)?.stack ?? error)}`);
  } finally {
    Math.random = systemRandom;
    current = undefined;
  }
  const { plan, storeCalls: asked, witness, time, servers } = world;
  const account = (): string => [JSON.stringify(plan), ...world.happened, formatHistory(world.history)].join('\n');
  const commands = servers.reduce((sum, server) => sum + server.commands, 0);
  return { plan, violations: world.found, storeCalls: asked, commands, holds: witness.begun, virtualMs: time.now, account };
}

async function runToItsEnd(world: World): Promise<void> {
  const { plan, time, random } = world;
  let working = true;
  const callers = new Callers(world, () => working);
  const join = (): void => {
    void world.join().then(
      (member) => callers.start(member),
      (error: unknown) => {
        // An operator puts that right, and it starts again.
        if (world.isFormatDisputed && String(error).includes('must agree')) return void time.after(1_000, join);
        world.violations.push(`a process could not start: ${String(error)}`);
      },
    );
  };
  const nemesis = new Nemesis(world, random.fork(), join);
  for (let n = 0; n < plan.processes; n++) join();
  await time.runUntil(() => world.members.every(({ opened }) => opened), 10_000);
  const signs = new LifeSigns(world, callers, nemesis);
  signs.begin();
  nemesis.begin();
  await time.runUntil(() => world.storeCalls >= plan.storeCalls || world.broken, LONGEST_MS);
  working = false;
  world.note('all faults end');
  nemesis.heal();
  if (world.broken) return;
  const answered = await time.runUntil(() => !callers.busy && world.members.every(({ opened, process }) => opened || !process.alive), time.now + ANSWERED_WITHIN_MS);
  if (!answered) for (const { what, member } of callers.open) if (member.process.alive) world.violations.push(`never answered: ${what()}`);
  await signs.everyLockCanBeHad();
  signs.end();
  await new Remains(world).check();
  judgeHistory(world);
  if (world.turnsArePromised) world.violations.push(...checkTurns(world.history));
}

function judgeHistory(world: World): void {
  for (const { rule, key, message } of checkHistory(world.history)) {
    if (rule === 'order' ? !world.orderIsPromised : world.historyIsExcused) continue;
    world.violations.push(`${rule} of '${key}': ${message}`);
  }
}
