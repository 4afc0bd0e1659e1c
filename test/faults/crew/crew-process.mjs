/**
 * One process of a fault run: a Nest application with the built package whose callers take locks, write to a resource that
 * checks fences, and record what they saw. Driven by messages (crew.ts); ends by itself when the other side has gone.
 */
import 'reflect-metadata';
import { setMaxListeners } from 'node:events';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { answerCalls, load } from '../../support/answer-calls.mjs';

const { LockModule, LockService } = await load();

const now = () => Number(process.hrtime.bigint()) / 1e6;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const trueTime = Date.now;
const STEP_MS = 8;
const TICK_MS = 5;
const LATE_MS = 15;
/** An end that has moved by less was only measured in another instant. */
const RENEWED_BY_MS = 5;

let app, locks, resource, run;
let stop, stopped;
let stays = [];
let lags = [];
let ticker;
let callers = [];

function watchLoop() {
  let last = now();
  ticker = setInterval(() => {
    const at = now();
    if (at - last > TICK_MS + LATE_MS) lags.push([at, at - last]);
    last = at;
  }, TICK_MS);
}

/** A generator of its own for each caller, so that a seed means the same work in every run. */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function work(plan, caller, seed) {
  const next = random(seed);
  const within = ([from, to]) => Math.round(from + (to - from) * next());
  const keys = typeof plan.key === 'string' ? [plan.key] : plan.key;
  await sleep(within([0, 30]));
  while (!stop.signal.aborted) {
    const waitMs = within(plan.waitMs);
    const { mode, leaseMs, renew, minReplicas, caution } = plan;
    const stay = { process: run.name, caller, keys, mode, caution, leaseMs, waitMs, askedAt: now(), accepted: 0, stale: 0 };
    stays.push(stay);
    let lease;
    try {
      lease = await locks.acquire(plan.key, { mode, leaseMs, waitMs, renew, minReplicas, signal: stop.signal });
      stay.grantedAt = now();
    } catch (error) {
      stay.refusedAt = now();
      stay.code = stop.signal.aborted && error.name === 'AbortError' ? 'cancelled' : (error.code ?? error.name);
      stay.message = error.message;
      await sleep(within(plan.restMs));
      continue;
    }
    await hold(lease, stay, stay.grantedAt + within(plan.holdMs), plan.stepMs);
    await sleep(within(plan.restMs));
  }
}

function isSure(lease, stay) {
  const at = now();
  if (stay.caution === 'listens') {
    if (lease.signal.aborted) return false;
  } else {
    try {
      lease.assertHeld();
    } catch {
      stay.threwAt = at;
      return false;
    }
  }
  stay.sureAt = at;
  noteTrust(lease, stay, at);
  return true;
}

/** An end that moves is a renewal that the store has answered. */
function noteTrust(lease, stay, at) {
  const trustedUntil = at + lease.remainingMs;
  if (stay.trustedUntil !== undefined && trustedUntil > stay.trustedUntil + RENEWED_BY_MS) (stay.renewedAt ??= []).push(at);
  stay.trustedUntil = trustedUntil;
}

async function hold(lease, stay, until, stepMs = 0) {
  stay.fences = Object.fromEntries(lease.fences);
  const aborted = () => (stay.abortedAt ??= now());
  if (lease.signal.aborted) aborted();
  else lease.signal.addEventListener('abort', aborted);
  while (isSure(lease, stay) && now() < until && !stop.signal.aborted) {
    if (stepMs > 0) await sleep(stepMs);
    await write(stay);
    await Promise.race([sleep(STEP_MS), stopped]);
  }
  stay.releasedAt = now();
  try {
    stay.outcome = await lease.release();
  } catch (error) {
    stay.releaseError = String(error);
  }
  stay.releaseTookMs = now() - stay.releasedAt;
  lease.signal.removeEventListener('abort', aborted);
}

async function write(stay) {
  for (const [key, fence] of Object.entries(stay.fences)) {
    const answer = Number(await resource.eval(run.guard, 1, `${run.name.split('/')[0]}:${key}`, fence, stay.mode));
    if (answer >= 0) stay.accepted += 1;
    else stay.stale += 1;
  }
}

const verbs = {
  /** Boots the application; answers how it failed, if it did. */
  async open({ options, name, guard, resourceUrl }) {
    run = { name, guard };
    stop = new AbortController();
    setMaxListeners(0, stop.signal);
    stopped = new Promise((resolve) => stop.signal.addEventListener('abort', resolve));
    [stays, lags] = [[], []];
    class App {}
    Module({ imports: [LockModule.forRoot(options)] })(App);
    const since = now();
    try {
      app = await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false });
    } catch (error) {
      app = undefined;
      return { code: error.code, name: error.name, message: error.message, afterMs: now() - since };
    }
    locks = app.get(LockService);
    resource = new Redis(resourceUrl);
  },
  begin({ plans, seed }) {
    watchLoop();
    callers = plans.map((plan, n) => work(plan, n, seed * 1000 + n));
  },
  /** When each key was granted in this process for the last time. */
  lastGrants() {
    const last = {};
    for (const { keys, grantedAt } of stays) if (grantedAt !== undefined) for (const key of keys) last[key] = Math.max(last[key] ?? 0, grantedAt);
    return last;
  },
  /** Since when a key has been held here, if it is. */
  heldSince: ({ key }) => stays.findLast((stay) => stay.keys.includes(key) && stay.grantedAt !== undefined && stay.releasedAt === undefined)?.grantedAt,
  async finish() {
    stop.abort();
    await Promise.all(callers);
    clearInterval(ticker);
    return { stays, lags };
  },
  /** The wall clock of this process alone is set. */
  stepClock({ ms }) {
    Date.now = () => trueTime() + ms;
  },
  async close() {
    await app?.close();
    app = undefined;
    resource?.disconnect();
    resource = undefined;
  },
};

answerCalls(verbs);
