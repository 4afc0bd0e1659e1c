/** What is told of the server of a store: it stopped or resumed serving, does not say who it is, or may have forgotten who holds what. */
import type { Clock, Timer } from '../../core/port/clock.js';
import type { Report, StoreEvent } from '../../core/port/lock-events.js';
import { lasted, type OutageListener } from '../wire/outage.js';
import type { Memories } from './server-view.js';
import type { Connections } from '../wire/connections.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { reasonOf } from '../wire/store-failure.js';
import type { StoreSummary } from '../../core/port/lock-store.js';
import type { ServerFacts } from '../wire/boot-probe.js';

/** Reports the beginning and the end of an outage. */
export function outageNews(node: string, report: Report): Pick<OutageListener, 'away' | 'back'> {
  return {
    away: (reason) => report({ kind: 'store lost', level: 'warning', message: awayText(node, reason) }),
    back: (afterMs) => report({ kind: 'store back', level: 'info', message: `Locks: ${node} serves again, after ${lasted(afterMs)}.` }),
  };
}

/** Warns at boot that a restart of the server cannot be noticed, unless recovery is switched off. */
export function warnOfBlindness(memories: Memories, node: string, recoveryMs: number, report: Report): void {
  if (recoveryMs === 0 || !memories.areBlind) return;
  const message =
    `Locks: ${node} does not tell its user who it is, so a restart or a failover that loses data is not noticed: two may hold a lock then. ` +
    'Allow +info (and +cluster|myid on a Cluster).';
  report({ kind: `no recovery on ${node}`, level: 'warning', message });
}

function awayText(node: string, reason: string): string {
  const meanwhile = 'Locks that are held stay held until their leases end, calls wait as long as their waitMs allows, and the server is retried continuously.';
  return `Locks: ${node} does not serve: ${reason.replace(/\.$/, '')}. ${meanwhile}`;
}

type ForgotReason = StoreEvent['reason'];

/** Behind so many characters for the server, the name of a memory is the time from which it counts. */
const SERVER_LENGTH = 17;
/** A recovery that is not claimed by this process is looked at again after this long, in ms. */
const LOOKS_AFTER_MS = 500;
const REASONS: Readonly<Record<ForgotReason, string>> = {
  flushed: 'was flushed, or loaded other data',
  restarted: 'has a node that was restarted',
  replaced: 'has another master for some slots',
  'restarted-or-replaced': 'was restarted, or another server took its place',
};

/** Tells that a server forgot what it granted, and that its recovery is over: one log line and event each, however many slot groups there are. */
export class RecoveryNews {
  listener: (event: StoreEvent) => void = () => {};
  private timer: Timer | undefined;

  constructor(
    private readonly node: string,
    private readonly clock: Clock,
    private readonly report: Report,
    private readonly recovery: { readonly recoversForMs: number; readonly broughtBack: number },
  ) {}

  /** A slot group had the memory `before`, and has another one now. */
  forgot(before: string, memory: string): void {
    if (this.timer !== undefined) return;
    const { node: store, clock, recovery } = this;
    const [reason, forMs] = [whatHappened(before, memory), recovery.recoversForMs];
    const closed = forMs > 0 ? `It grants nothing new for ${lasted(forMs)}; leases that are held are brought back meanwhile.` : 'It grants again by now.';
    this.report({ kind: `recovery of ${store}`, level: 'warning', message: `Locks: ${store} ${REASONS[reason]}, and may have forgotten who holds what. ${closed}` });
    this.recovers(reason, clock.now(), recovery.broughtBack);
    this.listener({ type: 'storeForgot', store, reason, forMs });
  }

  close(): void {
    if (this.timer !== undefined) this.clock.clearTimer(this.timer);
    this.timer = undefined;
  }

  private recovers(reason: ForgotReason, since: number, before: number): void {
    const { node: store, clock, recovery } = this;
    this.timer = clock.setTimer(() => {
      if (recovery.recoversForMs > 0) return this.recovers(reason, since, before);
      this.timer = undefined;
      const broughtBack = recovery.broughtBack - before;
      this.report({ kind: `end of the recovery of ${store}`, level: 'info', message: `Locks: ${store} grants again. This process brought back ${broughtBack} ${broughtBack === 1 ? 'lease' : 'leases'}.` });
      this.listener({ type: 'storeRecovered', store, reason, afterMs: clock.now() - since, broughtBack });
    }, Math.max(LOOKS_AFTER_MS, recovery.recoversForMs));
  }
}

/** In a Cluster the second half of a server's name is that of the node, which a restart does not change. */
function whatHappened(before: string, memory: string): ForgotReason {
  if (before.slice(0, SERVER_LENGTH) === memory.slice(0, SERVER_LENGTH)) return 'flushed';
  if (memory[SERVER_LENGTH - 1] !== '@') return 'restarted-or-replaced';
  return before.slice(8, SERVER_LENGTH) === memory.slice(8, SERVER_LENGTH) ? 'restarted' : 'replaced';
}

const COMMAND = 'pubsub|numsub';

/**
 * Whether the server can tell the scripts who listens, so that a waiter whose process is gone is passed over at once: it is asked about this
 * process's own channel, which it has subscribed to. Never rejects; without an answer no waiter is passed over. On a
 * Cluster a node knows only its own subscribers, and behind some proxies the subscriptions are on another server than the scripts.
 */
export async function canTellWhoListens(runner: ScriptRunner, connections: Connections, channel: string, report: Report): Promise<boolean> {
  if (connections.isCluster) return false;
  try {
    const [, count] = await runner.command<[string, number]>(COMMAND, undefined, (client) => client.call('pubsub', 'NUMSUB', channel));
    return count > 0;
  } catch (error) {
    report({ kind: `${COMMAND} on ${connections.node}`, level: 'warning', message: refusedText(connections.node, reasonOf(error)) });
    return false;
  }
}

function refusedText(node: string, reason: string): string {
  return (
    `Locks: ${node} does not tell who listens, so waiters whose processes died delay the next by up to 5 s, not by some milliseconds. ` +
    `Allow its user +${COMMAND} (the server said: ${reason}).`
  );
}

export interface Summarized {
  /** The prefix of every Redis key and channel. */
  readonly prefix: string;
  /** How long the server grants nothing new after it forgot, in ms; 0 for no recovery at all. */
  /** `'lease'`: as long as the longest lease that a process may take. */
  readonly recoveryMs: number | 'lease';
  /** The default of calls. */
  readonly minReplicas?: number | undefined;
}

/** What one Redis, a Sentinel or a Cluster is, in the line with which an application starts. */
export function redisSummary({ prefix, recoveryMs, minReplicas = 0 }: Summarized, { node, isCluster }: Connections, facts: ServerFacts | undefined): StoreSummary {
  const off = recoveryMs === 0 ? ['recovery (recoveryMs is 0: after a restart or a failover without the grant two may hold one lock)'] : [];
  if (facts === undefined) {
    return { place: isCluster ? 'a Cluster' : placeOf(node, ''), prefix, off, unknown: `replicas, eviction and persistence, because the user may not run INFO` };
  }
  const { masters, replicas, evicting, withoutFile } = facts;
  const more = replicas === 0 ? '' : `, ${replicas === 1 ? '1 replica' : `${replicas} replicas`}`;
  if (minReplicas === 0) off.push(replicas === 0 ? 'replicas (none is connected)' : 'grants that wait for a replica (minReplicas is 0: an old master may go on granting in a partition)');
  if (evicting !== undefined) off.push(`safety from eviction (maxmemory-policy is ${evicting}: a lock that is held may be evicted)`);
  if (withoutFile > 0) off.push(`the append-only file${masters > 1 ? ` of ${withoutFile} masters` : ''} (a restart forgets what was granted since the last snapshot)`);
  return { place: isCluster ? `a Cluster (${masters} masters${more})` : placeOf(node, more), prefix, off };
}

function placeOf(node: string, more: string): string {
  return node.includes('Sentinel') ? `${node}${more === '' ? '' : ` (${more.slice(2)})`}` : `one Redis (${node}${more})`;
}
