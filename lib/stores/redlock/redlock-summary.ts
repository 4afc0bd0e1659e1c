/** What a Redlock is, in the line with which an application starts. */
import type { StoreSummary } from '../../core/port/store-summary.js';
import { quorumOf } from './quorum.js';
import type { RedlockNode } from './redlock-node.js';

export function redlockSummary(prefix: string, nodes: readonly RedlockNode[]): StoreSummary {
  const checked = nodes.filter(({ link }) => link.check.passed);
  const missing = nodes.length - checked.length;
  const names = nodes.map(({ name }) => name).join(', ');
  const silent = missing > 0 ? `, ${missing} did not respond` : '';
  const place = `a Redlock of ${nodes.length} nodes (${names}; ${quorumOf(nodes.length)} decide${silent})`;
  const off = checked.flatMap(({ name, link }) => {
    const policy = link.check.facts?.evicting;
    return policy === undefined ? [] : [`safety from eviction on ${name} (maxmemory-policy is ${policy}: a vote may be evicted)`];
  });
  const untold = checked.filter(({ link }) => link.check.facts === undefined).map(({ name }) => name);
  return { place, prefix, off, unknown: untold.length === 0 ? undefined : `eviction on ${untold.join(', ')}, because the user may not run INFO` };
}
