/**
 * Checks a server before the first lock is asked for: it answers, all processes use the same wire format, and its access rules allow
 * every command and channel that will be needed. Each script runs once, on a lock that nobody else can name, so that a missing
 * right shows at boot and not at the first use. The health check takes such a lock, too.
 */
import { delay, type Clock } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { Report } from '../../core/port/lock-events.js';
import { rightsError } from './access-rule.js';
import type { Connections } from './connections.js';
import { acquireCall, downgradeCall, forceReleaseCall, heartbeatCall, inspectCall, readAcquire, releaseCall, renewCall, type AcquireArgs, type BuiltCall } from './lua.generated.js';
import { listOf, RECOVERING_REASON, releaseOutcome } from './lock-reply.js';
import { boundedBoot, connected, mistaken } from './first-connection.js';
import { UNKNOWN_MEMORY, type RedisKeys } from './redis-keys.js';
import type { ScriptReply, ScriptRunner } from './script-runner.js';
import { reasonOf, storeFailure } from './store-failure.js';
import type { WakeChannel } from './wake-channel.js';
import type { WireFormat } from './wire-format.js';

interface Probed {
  readonly options: {
    readonly process: string;
    readonly maxLeaseMs: number;
    readonly bootTimeoutMs: number;
    readonly clock: Clock;
    readonly report: Report;
    readonly strictServer?: boolean | undefined;
  };
  readonly connections: Connections;
  readonly runner: ScriptRunner;
  readonly keys: RedisKeys;
  readonly channel: WakeChannel;
  readonly format: WireFormat;
  readonly recoveryMs: number;
  readonly memories: { learnAtBoot(): Promise<void> };
}

/** The pause before a server that is loading, busy or failing over is probed again, in ms. */
const PROBES_AGAIN_AFTER_MS = 100;
/** One slot group of each number of digits, because an access rule has a pattern for each. */
const GROUPS_BY_DIGITS = [0, 10, 100];

/** The length of the trial's lease in ms. If the release does not arrive, the lock is free after it. */
const TRIAL_LEASE_MS = 1_000;
/** The last instant of thirteen digits: what is asked for here may act whenever it arrives. */
export const NEVER = 9_999_999_999_999;

/**
 * Resolves when the server can be used, with what it says of its set-up, or with undefined when the user may not ask. Rejects with
 * LockStoreError, or with the error that the server replied.
 */
export function probe(probed: Probed): Promise<ServerFacts | undefined> {
  const { connections, options } = probed;
  return boundedBoot(connections, options.clock, options.bootTimeoutMs, () => probeUntil(options.clock.now() + options.bootTimeoutMs, probed));
}

async function probeUntil(deadline: number, probed: Probed): Promise<ServerFacts | undefined> {
  const { connections, options, keys } = probed;
  try {
    await connected(connections, options.clock);
    await becomesFit(probed, deadline);
    const facts = await factsOf(probed.runner, connections);
    checkEviction(facts, probed);
    return facts;
  } catch (error) {
    throw rightsError(error, connections.node, keys.prefix) ?? error;
  }
}

/** Checks until the server is fit. It may be loading, busy or failing over for a while. */
async function becomesFit(probed: Probed, deadline: number): Promise<void> {
  const { connections, options: { clock } } = probed;
  let replica: LockStoreError | undefined;
  for (;;) {
    try {
      return await check(probed);
    } catch (error) {
      if (!(error instanceof LockStoreError)) throw error;
      const mistake = mistaken(connections, error);
      if (!(mistake ?? error).retryable) throw mistake ?? error;
      // The next try looks for the master of a replica, and its error says less than that this server is one.
      replica = mistake ?? replica;
      if (clock.now() + PROBES_AGAIN_AFTER_MS >= deadline) throw replica ?? error;
    }
    await delay(clock, PROBES_AGAIN_AFTER_MS);
  }
}

async function check(probed: Probed): Promise<void> {
  await runEveryCommand(probed);
  await probed.format.claim();
  await runEveryScript(probed);
  await probed.memories.learnAtBoot();
  await probed.channel.open().catch((error: unknown) => {
    throw storeFailure(error, { what: 'subscribe', key: undefined, node: probed.connections.node });
  });
}

/** The name of a probe lock. It contains the node, because one server can be given as two Redlock nodes under two names. */
function probeName(what: string, { options, connections }: Probed): string {
  return `${what}:${options.process}@${connections.node}`;
}

/**
 * Runs every command that the scripts use, one by one, because the error of a script does not always name the command that it may
 * not run. The writes are such that a copy which arrives late leaves nothing behind.
 */
async function runEveryCommand(probed: Probed): Promise<void> {
  const { runner, keys, options, connections } = probed;
  const { lockKey: key, fenceKey: fence } = keys.probe(keys.groupOf(''), probeName('rights', probed));
  const calls: readonly (readonly [string, ...(string | number)[]])[] = [
    ['eval', 'return 1', 1, key],
    ['get', key],
    ['set', fence, '0', 'NX'],
    ['pexpire', key, 60_000],
    ['hget', key, 'a'],
    ['hmget', key, 'a'],
    ['hgetall', key],
    ['hdel', key, 'a'],
    ['del', key],
    ['time'],
    ['publish', keys.channel(options.process), ''],
  ];
  for (const [command, ...args] of calls) await runner.command(command, key, (client) => client.call(command, ...args));
  for (const group of GROUPS_BY_DIGITS) {
    const all = Object.values(keys.probe(group, probeName('keys', probed)));
    await runner.command('eval', all[0], (client) => client.call('eval', 'return 1', all.length, ...all));
  }
  // The fence key is a string, so a user who may run HSET gets the error WRONGTYPE.
  await runner.command('hset', fence, (client) => client.call('hset', fence, 'a', '1')).catch((error: unknown) => {
    if (!/\bWRONGTYPE\b/.test(reasonOf(error))) throw error;
  });
  await Promise.all(connections.masters().map((master) => runner.command('scan', master, (client) => client.call('scan', '0', 'COUNT', 1))));
}

async function runEveryScript(probed: Probed): Promise<void> {
  const { runner, keys, options, recoveryMs } = probed;
  const name = probeName('boot', probed);
  const on = keys.probe(keys.groupOf(name), name);
  const holder = `${options.process}.boot1`;
  const waiter = `${options.process}.boot2`;
  const calls: readonly BuiltCall[] = [
    acquireCall(on, trialRequest({ id: holder, mode: 'write', queue: true, recoveryMs })),
    acquireCall(on, trialRequest({ id: waiter, mode: 'read', queue: true, recoveryMs })),
    renewCall({ lockKeys: [on.lockKey] }, { runs: [{ leaseMs: TRIAL_LEASE_MS, ids: holder }] }),
    heartbeatCall(on, { id: waiter, floor: 0, recoveryMs, known: UNKNOWN_MEMORY }),
    inspectCall(on),
    downgradeCall(on, { id: holder, floor: 0, recoveryMs }),
    releaseCall(on, { id: holder, mayBeOver: true, floor: 0, abandoned: false, recoveryMs, known: UNKNOWN_MEMORY }),
    forceReleaseCall(on, { notAfter: NEVER, floor: 0, recoveryMs }),
  ];
  for (const call of calls) await runner.run(call, () => undefined);
}

/**
 * Takes and releases a lock that nobody else can name, for the health check: a server may answer questions and yet refuse every write,
 * because its memory is full or it has become a replica. Trials of one process at the same time have the same id, so they do not get in
 * each other's way. Rejects with LockStoreError.
 */
export async function takeTrialLock(process: string, redisKeys: RedisKeys, runner: ScriptRunner, recoveryMs: number): Promise<void> {
  const name = `trial:${process}`;
  const [id, keys] = [`${process}.trial`, redisKeys.probe(redisKeys.groupOf(name), name)];
  await runner.run(acquireCall(keys, trialRequest({ id, mode: 'write', queue: false, recoveryMs })), granted);
  await runner.run(releaseCall(keys, { id, mayBeOver: true, floor: 0, abandoned: true, recoveryMs, known: UNKNOWN_MEMORY }), releaseOutcome);
}

/** What is asked for a lock that nobody else can name. */
function trialRequest(how: Pick<AcquireArgs, 'id' | 'mode' | 'queue' | 'recoveryMs'>): AcquireArgs {
  return { ...how, leaseMs: TRIAL_LEASE_MS, needsListener: false, plain: true, takes: 'nothing', notAfter: NEVER, floor: 0, known: UNKNOWN_MEMORY, fences: 1, minHoldMs: 0, graceMs: 0 };
}

/** Accepts every reply of acquire.lua but a refusal of the server, or that it recovers. @throws Error with the server's words */
function granted(reply: ScriptReply): void {
  if (typeof reply !== 'string' && readAcquire(listOf(reply)).kind === 'recovering') throw new Error(RECOVERING_REASON);
}

function checkEviction(facts: ServerFacts | undefined, { connections, options }: Probed): void {
  const evicting = facts?.evicting;
  if (evicting === undefined) return;
  const message = `Locks: ${connections.node} has maxmemory-policy ${evicting} and may evict a lock that is held. Set it to noeviction.`;
  if (options.strictServer !== true) return options.report({ kind: `eviction on ${connections.node}`, level: 'error', message });
  const reason = `maxmemory-policy ${evicting}`;
  throw new LockStoreError(message, { retryable: false, nodes: [{ node: connections.node, reason }] });
}

/** What the servers of a store say of their set-up: whether they may evict locks, keep a file, and have replicas. */
export interface ServerFacts {
  readonly masters: number;
  /** How many replicas all masters have together. */
  readonly replicas: number;
  /** A maxmemory-policy other than noeviction that one of the masters has. */
  readonly evicting: string | undefined;
  /** How many masters have no append-only file, so that a restart brings an old state back, or none. */
  readonly withoutFile: number;
}

/** Asks every master. Undefined when the user may not run INFO. */
async function factsOf(runner: ScriptRunner, connections: Connections): Promise<ServerFacts | undefined> {
  let told: readonly string[];
  try {
    told = await Promise.all(connections.masters().map((master) => runner.command<string>('info', master, (client) => client.call('info', 'default'))));
  } catch {
    return undefined;
  }
  const policies = told.map((info) => fieldOf(info, 'maxmemory_policy'));
  return {
    masters: told.length,
    replicas: told.reduce((sum, info) => sum + (Number(fieldOf(info, 'connected_slaves')) || 0), 0),
    evicting: policies.find((policy) => policy !== undefined && policy !== 'noeviction'),
    withoutFile: told.filter((info) => fieldOf(info, 'aof_enabled') === '0').length,
  };
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}
