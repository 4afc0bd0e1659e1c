/**
 * Many leases held at once and kept renewed: what that costs the process, and whether all of them lasted.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { LockUnderTest } from '../contenders/contender.js';

export interface Holding {
  readonly leases: number;
  readonly leaseMs: number;
  readonly holdMs: number;
  /** Samples the event loop every millisecond, which costs CPU that is not the lock's. */
  readonly watchDelay?: boolean;
}

export interface HoldingResult {
  readonly lost: number;
  readonly cpuMs: number;
  readonly seconds: number;
  /** Event-loop delay while holding, in ms: 99th percentile and worst; 0 where it was not watched. */
  readonly delayP99Ms: number;
  readonly delayMaxMs: number;
}

/** Taken a few at a time, since nobody takes 100,000 locks in one turn of the event loop. */
const AT_ONCE = 200;
const RESOLUTION_MS = 1;

const held: (() => Promise<void>)[] = [];
let lost = 0;

/** With `holdMs` 0 it only takes them; a later order measures and gives back what is held. */
export async function runHolding(lock: LockUnderTest, { leases, leaseMs, holdMs, watchDelay }: Holding): Promise<HoldingResult> {
  let next = 0;
  const taking = async (): Promise<void> => {
    while (next < leases) held.push(await lock.hold!(`lease:${next++}`, leaseMs, () => lost++));
  };
  await Promise.all(Array.from({ length: Math.min(leases, AT_ONCE) }, taking));
  if (holdMs === 0) return { lost, cpuMs: 0, seconds: 0, delayP99Ms: 0, delayMaxMs: 0 };
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const cpu = process.cpuUsage();
  const began = performance.now();
  if (watchDelay) delay.enable();
  await new Promise((resolve) => setTimeout(resolve, holdMs));
  delay.disable();
  const spent = process.cpuUsage(cpu);
  const seconds = (performance.now() - began) / 1000;
  return {
    lost,
    cpuMs: (spent.user + spent.system) / 1000,
    seconds,
    delayP99Ms: Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS),
    delayMaxMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS),
  };
}

export async function giveBack(): Promise<void> {
  await Promise.all(held.splice(0).map((release) => release()));
}
