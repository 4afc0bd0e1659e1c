/** The dashboard and the alert rules ask for metrics and attributes that there are, under the names that Prometheus gives them. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

interface Dashboard {
  readonly schemaVersion: number;
  readonly panels: readonly { readonly id: number; readonly targets: readonly { readonly expr: string }[] }[];
}

const page = readFileSync('docs/telemetry.md', 'utf8');
const dashboard = JSON.parse(readFileSync('dashboards/grafana.json', 'utf8')) as Dashboard;
const rules = readFileSync('dashboards/alerts.yml', 'utf8');

/** The names in Prometheus of the metrics that the page of telemetry lists. */
const metrics = [...page.matchAll(/^\| `(holdfast\.[\w.]+)` \| ([\w-]+)/gm)].flatMap(([, name = '', kind]) => {
  const plain = name.replaceAll('.', '_');
  if (kind === 'histogram') return ['bucket', 'count', 'sum'].map((part) => `${plain}_seconds_${part}`);
  return kind === 'counter' ? [`${plain}_total`] : [plain];
});
const attributes = [...page.matchAll(/`lock\.(\w+)`/g)].map(([, name]) => `lock_${name}`);

describe.each([
  ['dashboard', dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))],
  ['alert rules', [...rules.matchAll(/^ {8}expr: (.*)$/gm)].map(([, expr]) => expr!)],
])('The %s', (_name, expressions) => {
  it('ask for metrics that there are', () => {
    const asked = expressions.flatMap((expr) => expr.match(/holdfast_\w+/g) ?? []);
    expect(asked.length).toBeGreaterThanOrEqual(expressions.length);
    expect(asked.filter((name) => !metrics.includes(name))).toEqual([]);
  });

  it('ask for attributes that there are', () => {
    const asked = expressions.flatMap((expr) => expr.match(/lock_\w+/g) ?? []);
    expect(asked).not.toEqual([]);
    expect(asked.filter((name) => !attributes.includes(name))).toEqual([]);
  });

  it('close what they open', () => {
    for (const expr of expressions) expect([expr, expr.split('(').length, expr.split('{').length]).toEqual([expr, expr.split(')').length, expr.split('}').length]);
  });
});

it('Each panel has an id of its own, and each rule says what happened', () => {
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  const count = (what: RegExp): number => [...rules.matchAll(what)].length;
  expect([count(/^ {8}expr: /gm), count(/^ {10}summary: /gm), count(/^ {10}severity: (critical|warning)$/gm)]).toEqual(Array(3).fill(count(/^ {6}- alert: /gm)));
});
