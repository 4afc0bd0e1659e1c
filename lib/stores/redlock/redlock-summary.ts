/** What a Redlock is, in the line with which an application starts. */
import type { StoreSummary } from '../../core/port/lock-store.js';
import { quorumOf } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

export function redlockSummary(prefix: string, nodes: readonly RedlockNode[]): StoreSummary {
  const open = nodes.filter(({ store }) => store.summary !== undefined);
  const missing = nodes.length - open.length;
  const names = nodes.map(({ name }) => name).join(', ');
  const silent = missing > 0 ? `, ${missing} did not respond` : '';
  const place = `a Redlock of ${nodes.length} nodes (${names}; ${quorumOf(nodes.length)} decide${silent})`;
  const off = open.flatMap(({ name, store: { facts } }) =>
    facts?.evicting === undefined ? [] : [`safety from eviction on ${name} (maxmemory-policy is ${facts.evicting}: a vote may be evicted)`],
  );
  const untold = open.filter(({ store }) => store.facts === undefined).map(({ name }) => name);
  return { place, prefix, off, unknown: untold.length === 0 ? undefined : `eviction on ${untold.join(', ')}, because the user may not run INFO` };
}
