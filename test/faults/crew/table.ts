/** The result of many fault runs as a table, one line for each scenario. */
import type { FaultRun } from './fault-run.js';
import type { Figures, Verdict } from './judge.js';

const HEAD = '| scenario | topology | runs | verdict | grants | lost | stale writes refused | longest overlap | back after | acquire overran | free though wanted |';

export function faultTable(runs: readonly FaultRun[]): string {
  const byName = new Map<string, FaultRun[]>();
  for (const run of runs) byName.set(run.scenario.name, [...(byName.get(run.scenario.name) ?? []), run]);
  const lines = [...byName.values()].map((group) => line(group));
  return [HEAD, HEAD.replace(/[^|]+/g, ' --- '), ...lines].join('\n');
}

function line(group: readonly FaultRun[]): string {
  const [{ scenario }] = group as [FaultRun];
  const figures = group.map(({ verdict }) => verdict.figures);
  const sum = (figure: keyof Figures) => figures.reduce((total, each) => total + each[figure], 0);
  const most = (figure: keyof Figures) => `${Math.max(...figures.map((each) => each[figure])).toFixed(0)} ms`;
  const failed = group.filter(({ verdict }) => !isKept(verdict));
  const verdict = failed.length === 0 ? 'kept' : `broken with seed ${failed.map(({ seed }) => seed).join(', ')}`;
  const cells = [
    scenario.name, scenario.topology, group.length, verdict, sum('grants'), sum('lost'), sum('staleRefused'),
    most('overlapMs'), most('resumedMs'), most('overrunMs'), most('idleMs'),
  ];
  return `| ${cells.join(' | ')} |`;
}

export function isKept({ broken, late }: Verdict): boolean {
  return broken.length + late.length === 0;
}

/** Why a run failed, and how to see it again. */
export function explain({ scenario, seed, verdict }: FaultRun): string {
  const all = [...verdict.broken, ...verdict.late];
  const shown = all.slice(0, 12).join('\n  ');
  const more = all.length > 12 ? `\n  … and ${all.length - 12} more` : '';
  return `${scenario.name}\n  ${shown}${more}\n  again with: npm run test:soak -- --scenario '${scenario.name}' --seed ${seed}`;
}
