/**
 * Side by side: the same work for every contender, in many short rounds, so that a busy machine slows all of them alike.
 */
import { contenderNamed } from '../contenders/all.js';
import { withCrew, type Member } from './crew.js';
import { quantile, type Loop, type LoopResult } from './loop.js';
import { sent, type Measured } from './redis.js';

/** One contender on one piece of work; per cycle where it says so. */
export interface Sample {
  readonly cyclesPerSecond: number;
  readonly clientCpuUs: number;
  readonly serverCpuUs: number;
  readonly commands: number;
  readonly unfairness: number;
  readonly medianMs: number;
  readonly p99Ms: number;
}

/** What sideBySide found: medians of each, and ratios taken round by round, where both had the same machine. */
export class Rounds {
  constructor(private readonly samples: ReadonlyMap<string, readonly Sample[]>) {}

  get names(): readonly string[] {
    return [...this.samples.keys()];
  }

  median(name: string, figure: keyof Sample): number {
    return quantile(this.of(name).map((sample) => sample[figure]), 0.5);
  }

  /** The rate of one in terms of another's: the median of the rounds' ratios. */
  rateRatio(name: string, base: string): number {
    return this.ratio(name, base, 'cyclesPerSecond');
  }

  /** A figure of one in terms of another's: the median of the rounds' ratios. */
  ratio(name: string, base: string, figure: keyof Sample): number {
    const others = this.of(base);
    return quantile(this.of(name).map((sample, round) => sample[figure] / others[round]![figure]), 0.5);
  }

  /** Between which ratios the middle half of the rounds lies. */
  rateQuartiles(name: string, base: string): readonly [low: number, high: number] {
    const others = this.of(base);
    const ratios = this.of(name).map(({ cyclesPerSecond }, round) => cyclesPerSecond / others[round]!.cyclesPerSecond);
    return [quantile(ratios, 0.25), quantile(ratios, 0.75)];
  }

  private of(name: string): readonly Sample[] {
    const samples = this.samples.get(name);
    if (samples === undefined) throw new Error(`${name} was not measured`);
    return samples;
  }
}

const WARM_UP_MS = 2_500;
/** After so many cycles the compiler has done its work: a library needs ten times as many as the floor, because it has more to compile. */
const WARM_UP_CYCLES = 80_000;
const LONGEST_WARM_UP_MS = 15_000;
/** Short, so that no process idles for long: some seconds after its last work V8 throws away what it has compiled, and the process is young again. */
const WARM_UP_TURN_MS = 500;

/**
 * Starts a process for each, warms them up by turns, and measures one after another, each round in another order. `warmUpCycles`: fewer where a
 * cycle takes long.
 */
export function sideBySide(server: Measured, entries: readonly string[], rounds: number, loop: Loop, warmUpCycles = WARM_UP_CYCLES): Promise<Rounds> {
  return withCrew(entries, server.ports, async (crew) => {
    const samples = new Map(crew.map(({ contender }) => [contender.name, [] as Sample[]]));
    await warmUp(crew, loop, warmUpCycles);
    for (let round = 0; round < rounds; round++) {
      for (const member of shuffled(crew)) samples.get(member.contender.name)!.push(await measure(server, member, loop));
    }
    return new Rounds(samples);
  });
}

/** Time alone is no measure of it: a process that gets a tenth of a core does a tenth of its cycles. Those that wait for each other do few. */
async function warmUp(crew: readonly Member[], loop: Loop, least: number): Promise<void> {
  const done = new Map(crew.map((member) => [member, 0]));
  const enough = loop.keys === 'own' ? least : 0;
  for (let ms = 0; ms < WARM_UP_MS || (ms < LONGEST_WARM_UP_MS && [...done.values()].some((cycles) => cycles < enough)); ms += WARM_UP_TURN_MS) {
    for (const member of crew) done.set(member, done.get(member)! + (await member.order<LoopResult>({ kind: 'loop', loop: { ...loop, durationMs: WARM_UP_TURN_MS } })).cycles);
  }
}

/** How many cycles are measured of a young process. Soon after that it is another one, because V8 compiles what it sees often. */
const CYCLES_OF_THE_YOUNG = 1_000;

/** Starts the processes anew for each round, and measures each when it has had so many cycles; by that number. */
export async function whenYoung(server: Measured, entries: readonly string[], rounds: number, loop: Loop, ages: readonly number[]): Promise<ReadonlyMap<number, Rounds>> {
  const samples = new Map(ages.map((age) => [age, new Map<string, Sample[]>()]));
  for (let round = 0; round < rounds; round++) {
    await withCrew(entries, server.ports, async (crew) => {
      let had = 0;
      for (const age of ages) {
        const measured = Math.min(age, CYCLES_OF_THE_YOUNG);
        for (const member of shuffled(crew)) {
          await member.order({ kind: 'loop', loop: { ...loop, cycles: age - had } });
          const sample = await measure(server, member, { ...loop, cycles: measured });
          const { name } = member.contender;
          samples.get(age)!.set(name, [...(samples.get(age)!.get(name) ?? []), sample]);
        }
        had = age + measured;
      }
    });
  }
  return new Map([...samples].map(([age, of]) => [age, new Rounds(new Map(entries.map((entry) => contenderNamed(entry).name).map((name) => [name, of.get(name)!])))]));
}

export async function measure(server: Measured, { contender, order }: Member, loop: Loop): Promise<Sample> {
  const { result, cost } = await server.costOf(() => order<LoopResult>({ kind: 'loop', loop }));
  const { cycles, seconds, cpuUs, unfairness, medianMs, p99Ms } = result;
  return {
    cyclesPerSecond: cycles / seconds,
    clientCpuUs: cpuUs / cycles,
    serverCpuUs: (cost.cpuMs * 1000) / cycles,
    commands: sent(cost, contender.sends) / cycles + contender.sendsBesides,
    unfairness,
    medianMs,
    p99Ms,
  };
}

/** Nobody always runs after the same neighbour. */
function shuffled<T>(entries: readonly T[]): T[] {
  const left = [...entries];
  return entries.map(() => left.splice(Math.floor(Math.random() * left.length), 1)[0]!);
}
