/**
 * The boot of a store: its server answers, all processes use the same wire format, and the access rules (ACL) of the server's user allow
 * every command and channel that will be needed, so that a missing right shows at boot and not at the first use. Then a lock is taken that
 * nobody else can name, as the health check does.
 */
import { once } from 'node:events';
import { pause, inTime } from '../../core/port/clock.js';
import { LockStoreError } from '../../core/port/errors.js';
import type { StoreSummary } from '../../core/port/lock-store.js';
import type { Connections } from '../wire/connections.js';
import { acquireCall, readAcquire, readRelease, releaseCall, type AcquireArgs } from '../wire/lua.generated.js';
import { UNKNOWN_MEMORY } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import { causeOf, isReply, reasonOf, RECOVERING_REASON } from '../wire/store-failure.js';
import type { WakeListener } from '../wire/wake-channel.js';
import type { Recovery } from './recovery.js';
import type { RedisStoreOptions } from './redis-store.js';
import type { RemoteRedis } from './remote-redis.js';

/** The store that boots. */
interface Booting extends RemoteRedis, Pick<RedisStoreOptions, 'bootTimeoutMs' | 'strictServer' | 'minReplicas' | 'redlock'> {
  readonly recovery: Recovery;
  readonly messages: WakeListener;
}

/** The pause before a server that is loading, busy or failing over is probed again, in ms. */
const PROBES_AGAIN_AFTER_MS = 100;
/** One slot group of each number of digits, because an access rule has a pattern for each. */
const GROUPS_BY_DIGITS = [0, 10, 100];

const TRIVIAL_SCRIPT = 'return 1';
const TRIVIAL_SHA1 = 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db';

/** The length of the trial's lease in ms. If the release does not arrive, the lock is free after it. */
const TRIAL_LEASE_MS = 1_000;
/** The last instant of thirteen digits: what is asked for here may act whenever it arrives. */
export const NEVER = 9_999_999_999_999;

/**
 * Resolves when the server can be used, with what it is: it may be loading, busy or failing over for a while. Rejects with LockStoreError, or
 * with the error that the server replied: at once when waiting does not mend what is wrong, and when `bootTimeoutMs` is over.
 */
export async function probe(store: Booting): Promise<StoreSummary> {
  const { connections, connections: { commands }, clock, bootTimeoutMs } = store;
  /** What was wrong when it was asked last. */
  let unfit: LockStoreError | undefined;
  const becomesFit = async (): Promise<StoreSummary> => {
    for (;;) {
      try {
        if (!commands.isOpen) await Promise.race([commands.opened(), once(commands.events, 'problem')]);
        return await check(store);
      } catch (error) {
        if (!(error instanceof LockStoreError)) throw error;
        const isAnswer = isReply(error.cause);
        const found = mistakeIn(isAnswer ? error : (connections.lastError ?? error), connections) ?? error;
        if (!found.retryable) throw found;
        // That there is no connection says less than what the server said before.
        if (found !== error || isAnswer) unfit = found;
      }
      await pause(clock, PROBES_AGAIN_AFTER_MS);
    }
  };
  try {
    return await inTime(clock, becomesFit(), bootTimeoutMs, () => unfit ?? unreachable(connections, bootTimeoutMs));
  } catch (error) {
    throw rightsError(error, connections.node, store.keys.prefix) ?? error;
  }
}

async function check(store: Booting): Promise<StoreSummary> {
  await runEveryCommand(store);
  await store.format.agree();
  // Each answer will do: a server that forgot refuses a lock for as long as it recovers, and is fit all the same.
  await takeTrialLock(store, () => {});
  await store.recovery.learnAtBoot();
  await store.channel.open(store.messages).catch((error: unknown) => {
    throw store.runner.failureOf(error, { what: 'subscribe' });
  });
  return summaryOf(store);
}

/**
 * Runs every command that the scripts use by itself, because the error of a script does not always name the command that it may not run.
 * They are sent together: over a slow network each answer is a wait. The writes are such that a copy which arrives late leaves nothing behind.
 */
async function runEveryCommand({ runner, keys, process, node, connections }: Booting): Promise<void> {
  // The name of a probe lock contains the node, because one server can be given as two Redlock nodes under two names.
  const { lockKey: key, fenceKey: fence } = keys.probe(keys.groupOf(''), `rights:${process}@${node}`);
  const calls: readonly (readonly [string, ...(string | number)[]])[] = [
    ['eval', TRIVIAL_SCRIPT, 1, key],
    ['evalsha', TRIVIAL_SHA1, 1, key],
    ['get', key],
    ['set', fence, '0', 'NX'],
    ['pexpire', key, 60_000],
    ['hget', key, 'a'],
    ['hmget', key, 'a'],
    ['hgetall', key],
    ['hdel', key, 'a'],
    ['del', key],
    ['time'],
    ['publish', keys.channel(process), ''],
  ];
  const groups = GROUPS_BY_DIGITS.map((group) => Object.values(keys.probe(group, `keys:${process}@${node}`)));
  await Promise.all([
    ...calls.map((words) => runner.command(words, key)),
    ...groups.map((all) => runner.command(['eval', TRIVIAL_SCRIPT, all.length, ...all], all[0])),
    ...connections.masters().map((master) => runner.command(['scan', '0', 'COUNT', 1], master)),
  ]);
  // The fence key is a string now, so a user who may run HSET gets the error WRONGTYPE.
  await runner.command(['hset', fence, 'a', '1'], fence).catch((error: unknown) => {
    if (!/\bWRONGTYPE\b/.test(reasonOf(error))) throw error;
  });
}

/**
 * Takes and releases a lock that nobody else can name: a server may answer questions and yet refuse every write, because its memory is full
 * or it has become a replica. Trials of one process at the same time have the same id, so they do not get in each other's way. Rejects with
 * LockStoreError. `accept` throws for an answer that a fit server does not give.
 */
export async function takeTrialLock({ process, keys: ofStore, runner, recoveryMs }: RemoteRedis, accept = notRecovering): Promise<void> {
  const name = `trial:${process}`;
  const [id, keys] = [`${process}.trial`, ofStore.probe(ofStore.groupOf(name), name)];
  const request: AcquireArgs = {
    id, mode: 'write', queue: false, leaseMs: TRIAL_LEASE_MS, needsListener: false, plain: true, takes: 'nothing', notAfter: NEVER, floor: 0,
    known: UNKNOWN_MEMORY, fences: 1, minHoldMs: 0, graceMs: 0, recoveryMs,
  };
  await runner.run(acquireCall(keys, request), accept);
  await runner.run(releaseCall(keys, { id, mayBeOver: true, floor: 0, abandoned: true, recoveryMs, known: UNKNOWN_MEMORY }), readRelease);
}

/** Accepts every reply of acquire.lua but that the server recovers. @throws Error with the server's words */
function notRecovering(reply: ScriptReply): void {
  if (typeof reply !== 'string' && readAcquire(reply).kind === 'recovering') throw new Error(RECOVERING_REASON);
}

/** What the servers are, and what guards the locks there, in the line with which an application starts. Every master is asked. */
async function summaryOf({
  runner, connections, keys: { prefix }, node, isCluster, report, recoveryMs, strictServer, minReplicas = 0, redlock,
}: Booting): Promise<StoreSummary> {
  const masters = connections.masters();
  const infos = await Promise.all(masters.map((master) => runner.command<string>(['info', 'default'], master))).catch((error: LockStoreError) => {
    // Without an answer all is asked again: nothing is known of the policy then.
    if (!isReply(error.cause)) throw error;
  });
  const off = recoveryMs === 0 ? ['recovery (recoveryMs is 0: after a restart or a failover without the grant two may hold one lock)'] : [];
  const details = [isCluster ? `${masters.length} masters` : node];
  const place = (): string => `${isCluster ? 'a Cluster' : 'one Redis'} (${details.join(', ')})`;
  if (!infos) return { place: place(), prefix, off, unknown: 'replicas, eviction and persistence, because the user may not run INFO' };
  const replicas = infos.reduce((sum, info) => sum + (Number(fieldOf(info, 'connected_slaves')) || 0), 0);
  const evicting = infos.map((info) => fieldOf(info, 'maxmemory_policy')).find((policy) => policy !== undefined && policy !== 'noeviction');
  const withoutFile = infos.filter((info) => fieldOf(info, 'aof_enabled') === '0').length;
  // A Redlock needs neither replicas nor files.
  const isAlone = !redlock;
  if (isAlone && minReplicas === 0) off.push(replicas === 0 ? 'replicas (none is connected)' : 'grants that wait for a replica (minReplicas is 0: an old master may go on granting in a partition)');
  if (evicting) {
    const message = `Locks: ${node} has maxmemory-policy ${evicting} and may evict a lock that is held. Set it to noeviction.`;
    if (strictServer) throw new LockStoreError(message, { retryable: false, nodes: [{ node, reason: `maxmemory-policy ${evicting}` }] });
    report({ kind: `eviction on ${node}`, level: 'error', message });
    off.push(`safety from eviction (maxmemory-policy is ${evicting}: a lock that is held may be evicted)`);
  }
  if (isAlone && withoutFile > 0) off.push(`the append-only file${masters.length > 1 ? ` of ${withoutFile} masters` : ''} (a restart forgets what was granted since the last snapshot)`);
  if (replicas > 0) details.push(`replicas: ${replicas}`);
  return { place: place(), prefix, off };
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}

const WHO_LISTENS = 'pubsub|numsub';

/**
 * True if the server can tell the scripts who listens, so that a waiter whose process is gone is passed over at once: it is asked about this
 * process's own channel, which it has subscribed to. Never rejects; without an answer no waiter is passed over. On a
 * Cluster a node knows only its own subscribers, and behind some proxies the subscriptions are on another server than the scripts.
 */
export async function canTellWhoListens({ runner, isCluster, node, keys, process, report }: RemoteRedis): Promise<boolean> {
  if (isCluster) return false;
  try {
    const [, count] = await runner.command<[string, number]>(['pubsub', 'NUMSUB', keys.channel(process)]);
    return count > 0;
  } catch (error) {
    const message =
      `Locks: ${node} does not tell who listens, so waiters whose processes died delay the next by up to 5 s, not by some milliseconds. ` +
      `Allow its user +${WHO_LISTENS} (the server said: ${reasonOf(error)}).`;
    report({ kind: `${WHO_LISTENS} on ${node}`, level: 'warning', message });
    return false;
  }
}

/** Warns that a restart of the server cannot be noticed, unless recovery is switched off. */
export function warnOfBlindness({ memories, node, recoveryMs, report }: RemoteRedis): void {
  if (recoveryMs === 0 || !memories.areBlind) return;
  const message =
    `Locks: ${node} does not tell its user who it is, so a restart or a failover that loses data is not noticed: two may hold a lock then. ` +
    'Allow +info (and +cluster|myid on a Cluster).';
  report({ kind: `no recovery on ${node}`, level: 'warning', message });
}

const REPLICA = /\bREADONLY\b/;
/** What a server says that is not what the option says, what that means, and what to do. The last two are about a single server. */
const MISTAKES: readonly (readonly [RegExp, string, string, 'of one server'?])[] = [
  // These are errors of OpenSSL about an answer that is not TLS.
  [
    /wrong version number|packet length too long|unknown protocol/i,
    "answers without TLS, and the 'redis' option asks for TLS (rediss:// or tls)",
    'Give a redis:// URL, or the port on which the server speaks TLS.',
  ],
  [/^NOAUTH\b/, "wants a password, and the 'redis' option has none", 'Put one into the URL (redis://user:password@host), or give password or credentials.'],
  [/\b(WRONGPASS|NOAUTH|ERR AUTH|invalid password|DB index is out of range|NOPERM)\b/i, 'refused the connection', "Check user, password and database of the 'redis' option."],
  [/\b(MOVED|CROSSSLOT|CLUSTERDOWN)\b/, 'is a node of a Cluster, and redis names one Redis', 'Give { cluster: [...] } with some of its nodes, or a client of a Cluster.', 'of one server'],
  // A replica may become the master, so waiting may help there.
  [REPLICA, 'is a replica, which refuses writes', 'Give the address of its master, or { sentinels: [...], name }.', 'of one server'],
];

/** What to tell of an error at boot; undefined of one that is no mistake in the options. */
function mistakeIn(error: Error, { node, isCluster }: Connections): LockStoreError | undefined {
  const reason = error instanceof LockStoreError ? (error.nodes[0]?.reason ?? '') : reasonOf(error);
  const [words, what, next] = MISTAKES.find(([said, , , of]) => said.test(reason) && !(isCluster && of)) ?? [];
  return words && bootError(node, `${what}: ${reason}. ${next}`, error, reason, words === REPLICA);
}

/** A Redis without TLS says nothing to a client that begins with TLS, as a firewall does. */
function unreachable({ node, lastError }: Connections, withinMs: number): LockStoreError {
  const reason = lastError === undefined ? 'no answer' : reasonOf(lastError);
  const next = reason.includes('the function') ? "Check that function, in the 'redis' option." : "Check the 'redis' option, that the server runs, and whether it speaks TLS on that port.";
  return bootError(node, `could not be reached within ${withinMs} ms: ${reason}. ${next}`, lastError, reason, true);
}

function bootError(node: string, what: string, error: unknown, reason: string, retryable = false): LockStoreError {
  return new LockStoreError(`Locks: ${node} ${what}`, { cause: causeOf(error), nodes: [{ node, reason }], retryable });
}

/** The commands that the user must be allowed: those that are run above, and SUBSCRIBE for the wake channel. PUBSUB NUMSUB can be missed. */
const COMMANDS = 'eval evalsha get set del pexpire hget hmget hset hdel hgetall time publish scan subscribe info pubsub|numsub client|setname';

/** The patterns of a slot group's number. A `*` instead would also match the keys of a prefix such as `lock:7` beside the prefix `lock`. */
const GROUPS = ['[0-9]', '[0-9][0-9]', '[0-9][0-9][0-9]'];

/** The smallest access rule for a user of this prefix, as the docs print it. */
export function leastRule(prefix: string): string {
  return `${COMMANDS.split(' ').map((command) => `+${command}`).join(' ')} ${keyPatterns(prefix)} ${channelPattern(prefix)}`;
}

/** The patterns of the Redis keys of this prefix. */
function keyPatterns(prefix: string): string {
  const ofGroups = GROUPS.flatMap((group) => [`~{${prefix}:${group}}:[lmq]:*`, `~{${prefix}:${group}}:f`]);
  return [...ofGroups, `~{${prefix}}:format`].join(' ');
}

function channelPattern(prefix: string): string {
  return `&{${prefix}}:c:*`;
}

/** The error that names the missing right; undefined when `error` is not about rights. */
function rightsError(error: unknown, node: string, prefix: string): LockStoreError | undefined {
  const reason = reasonOf(error);
  if (!/\bNOPERM\b|ACL failure|user executing the script/i.test(reason)) return undefined;
  const command = /run the '([^']+)'/.exec(reason)?.[1];
  const names = /channel/i.test(reason) ? channelPattern(prefix) : keyPatterns(prefix);
  return notAllowed(node, prefix, command === undefined ? names : `+${command}`, error);
}

/** The error for a user who may not do what locks need. */
export function notAllowed(node: string, prefix: string, missing: string, error: unknown): LockStoreError {
  const least = leastRule(prefix);
  const [reason, rule] = [reasonOf(error), least.includes(missing) ? least : `${missing} ${least}`];
  return bootError(node, `does not allow what locks need; missing: ${missing}. The least rule for its user: ${rule} (the server said: ${reason})`, error, reason);
}
