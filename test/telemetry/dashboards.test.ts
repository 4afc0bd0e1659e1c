/** The dashboard and the alert rules ask for metrics and attributes that there are, under the names that Prometheus gives them. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { MeterProvider } from '@opentelemetry/api';
import { NEVER } from 'rxjs';
import ts from 'typescript';
import { instrumentLocks } from '../../lib/telemetry/index.js';

interface Target {
  readonly expr: string;
  readonly refId: string;
}

interface Dashboard {
  readonly panels: readonly { readonly id: number; readonly gridPos: Readonly<Record<'h' | 'w' | 'x' | 'y', number>>; readonly targets: readonly Target[] }[];
}

const SOURCE = { type: 'prometheus', uid: '${datasource}' };
const number = expect.any(Number);
const text = expect.stringMatching(/./);
/** What a dashboard has to have, by the schema of Grafana (kinds/dashboard), to be imported and drawn. */
const PANEL = { id: number, type: 'timeseries', title: text, datasource: SOURCE, gridPos: { h: number, w: number, x: number, y: number }, fieldConfig: { defaults: expect.any(Object), overrides: [] }, options: expect.any(Object) };
const TARGET = { expr: text, refId: text, datasource: SOURCE, legendFormat: text };

const page = readFileSync('docs/telemetry.md', 'utf8');
const dashboard = JSON.parse(readFileSync('dashboards/grafana.json', 'utf8')) as Dashboard;
const rules = readFileSync('dashboards/alerts.yml', 'utf8');

/** The instruments that telemetry makes, by name. */
const made = new Map<string, string>();
const instrument = (kind: string) => (name: string): unknown => made.set(name, kind) && {};
const meter = { createHistogram: instrument('histogram'), createCounter: instrument('counter'), createUpDownCounter: instrument('up-down counter') };
instrumentLocks({ events: NEVER }, { meterProvider: { getMeter: () => meter } as unknown as MeterProvider });

/** Their names in Prometheus. */
const metrics = [...made].flatMap(([name, kind]) => {
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

it('The page of telemetry lists the instruments that are made', () => {
  const listed = [...page.matchAll(/^\| `(holdfast\.[\w.]+)` \| ([\w-]+(?: counter)?)/gm)].map(([, name, kind]) => [name, kind]);
  expect(new Map(listed as [string, string][])).toEqual(made);
});

/** What the compiler says of each text as a value of Grafana's type. The type has enums; a file of JSON has their texts. */
function mistakesIn(texts: Readonly<Record<string, string>>): [file: string, mistake: string][] {
  const begins = `
    import type { Dashboard } from '@grafana/schema/dist/esm/raw/dashboard/x/Dashboard_types.gen';
    type Json<T> = T extends string ? \`\${T}\` : T extends number ? number : T extends boolean ? boolean : { [K in keyof T]: Json<T[K]> };
    export const dashboard: Json<Dashboard> = `;
  const options = { strict: true, noEmit: true, skipLibCheck: true, types: [], lib: ['lib.es5.d.ts'], module: ts.ModuleKind.NodeNext };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (name) => name in texts || fileExists(name);
  host.getSourceFile = (name, version, ...others) => (name in texts ? ts.createSourceFile(name, begins + texts[name], version) : getSourceFile(name, version, ...others));
  const found = ts.getPreEmitDiagnostics(ts.createProgram(Object.keys(texts), options, host));
  return found.map(({ file, messageText }) => [file?.fileName ?? '', ts.flattenDiagnosticMessageText(messageText, ' ')]);
}

it('The dashboard is one by the types of Grafana, by which one with a field that there is not is none', () => {
  const json = readFileSync('dashboards/grafana.json', 'utf8');
  const mistakes = mistakesIn({ 'dashboards/ours.ts': json, 'dashboards/broken.ts': json.replace('"gridPos"', '"gridPosition"') });
  expect(mistakes).toEqual([['dashboards/broken.ts', expect.stringContaining(`'"gridPosition"' does not exist in type`)]]);
});

it('The dashboard has what Grafana asks for, and no panel lies on another', () => {
  expect(dashboard).toMatchObject({ title: text, uid: text, schemaVersion: number, version: number, time: { from: text, to: text }, templating: { list: [{ name: 'datasource', type: 'datasource', query: 'prometheus' }] }, annotations: { list: [] } });
  for (const panel of dashboard.panels) {
    expect(panel).toMatchObject(PANEL);
    for (const target of panel.targets) expect(target).toMatchObject(TARGET);
    expect(new Set(panel.targets.map(({ refId }) => refId)).size).toBe(panel.targets.length);
  }
  const places = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }) => Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`));
  expect(new Set(places).size).toBe(places.length);
  expect(dashboard.panels.every(({ gridPos: { x, w } }) => x >= 0 && x + w <= 24)).toBe(true);
});

it('Each panel has an id of its own, and each rule says what happened', () => {
  expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
  const count = (what: RegExp): number => [...rules.matchAll(what)].length;
  expect([count(/^ {8}expr: /gm), count(/^ {10}summary: /gm), count(/^ {10}severity: (critical|warning)$/gm)]).toEqual(Array(3).fill(count(/^ {6}- alert: /gm)));
});
