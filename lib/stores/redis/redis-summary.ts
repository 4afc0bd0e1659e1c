/** What one Redis, a Sentinel or a Cluster is, in the line with which an application starts. */
import type { StoreSummary } from '../../core/port/lock-store.js';
import type { Connections } from '../wire/connections.js';
import type { ServerFacts } from '../wire/server-facts.js';

export interface Summarized {
  /** The prefix of every Redis key and channel. */
  readonly prefix: string;
  /** How long the server grants nothing new after it forgot, in ms; 0 for no recovery at all. */
  readonly recoveryMs: number;
  /** The default of calls. */
  readonly minReplicas?: number | undefined;
}

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
