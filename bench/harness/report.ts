/**
 * Writes what was found: one JSON file a question in bench/results, and from all of them bench/RESULTS.md.
 */
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, loadavg, platform, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { digits, isMet, type Answer, type Figure } from './answer.js';

const ROOT = new URL('../../../../', import.meta.url);
const RESULTS = new URL('bench/results/', ROOT);

/** A question's answers and the circumstances of the run that found them. */
export interface Finding {
  readonly question: string;
  readonly date: string;
  readonly machine: string;
  readonly software: string;
  /** Runnable processes per core before it began: 0 is a machine with nothing else to do. */
  readonly load: number;
  readonly answers: readonly Answer[];
}

export function circumstances(redisVersion: string): Omit<Finding, 'question' | 'answers'> {
  const [cpu] = cpus();
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} cores (${cpu?.model.trim()}), ${gigabytes} GiB, ${platform()} ${release()}`,
    software: `Node ${process.version}, Redis ${redisVersion}, ioredis ${versionOf('node_modules/ioredis')}`,
    load: Number((loadavg()[0]! / cpus().length).toFixed(1)),
  };
}

function versionOf(folder: string): string {
  const { version } = JSON.parse(readFileSync(new URL(`${folder}/package.json`, ROOT), 'utf8')) as { version: string };
  return version.replace(/^v/, '');
}

export function print({ question, answers }: Finding): void {
  for (const { title, columns, rows, figures } of answers) {
    console.log(`\n${question}: ${title}`);
    console.log(aligned([columns, ...rows]));
    for (const figure of figures) console.log(`  ${verdict(figure)}  ${figure.what}: ${digits(figure.measured)} (goal ${goalOf(figure)})`);
  }
}

export async function save(finding: Finding): Promise<void> {
  await mkdir(RESULTS, { recursive: true });
  await writeFile(new URL(`${finding.question}.json`, RESULTS), `${JSON.stringify(finding, null, 1)}\n`);
}

/** Puts together what this run and earlier runs found, in the order of the questions. */
export async function writeDocs(questions: readonly string[]): Promise<string> {
  const findings: Finding[] = [];
  for (const question of questions) {
    const text = await readFile(new URL(`${question}.json`, RESULTS), 'utf8').catch(() => undefined);
    if (text !== undefined) findings.push(JSON.parse(text) as Finding);
  }
  const answers = findings.flatMap((finding) => finding.answers);
  const page = new URL('bench/RESULTS.md', ROOT);
  await writeFile(page, markdown(findings, answers));
  return fileURLToPath(page);
}

function markdown(findings: readonly Finding[], answers: readonly Answer[]): string {
  const peers = ['redlock', 'redlock5', 'redis-semaphore', 'redlock-universal', 'murlock', 'node-redisson', '@redis-kit/lock', 'async-mutex'];
  const versions = peers.map((name) => `${name.replace(/5$/, '')} ${versionOf(`bench/node_modules/${name}`)}`);
  const summary = answers.flatMap(({ title, figures }) => figures.map((figure) => [title, figure.what, digits(figure.measured), goalOf(figure), verdict(figure)]));
  const lines = [
    '# Results',
    '',
    'Written by `npm run bench`; how it measures stands in [README.md](README.md). Only ratios taken in one run on one machine',
    'mean anything: absolute rates are those of a small machine that had other work to do at the time.',
    '',
    ...circumstancesOf(findings).map((line) => `- ${line}`),
    `- Peers: ${versions.join(', ')}; each with the settings its documentation advises.`,
    '',
    '## Goals and what was measured',
    '',
    table(['work', 'figure', 'measured', 'goal', ''], summary),
    ...answers.flatMap(({ title, method, columns, rows }) => ['', `## ${title}`, '', method, '', table(columns, rows)]),
    '',
  ];
  return lines.join('\n');
}

/** Once where all runs had the same, else by question. */
function circumstancesOf(findings: readonly Finding[]): string[] {
  const runs = new Map<string, string[]>();
  for (const { question, date, machine, software, load } of findings) {
    const run = `${date}, ${machine}, ${software}`;
    runs.set(run, [...(runs.get(run) ?? []), `${question} (load ${load})`]);
  }
  return [...runs].map(([run, questions]) => `${run}. Load per core before each question: ${questions.join(', ')}.`);
}

function table(columns: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;
  return [line(columns), line(columns.map((_, at) => (at === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

function aligned(rows: readonly (readonly (string | number)[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => String(row[column]).length)));
  const cell = (value: string | number, column: number): string => (column === 0 ? String(value).padEnd(widths[0]!) : String(value).padStart(widths[column]!));
  return rows.map((row) => `  ${row.map(cell).join('   ')}`).join('\n');
}

function verdict(figure: Figure): string {
  return isMet(figure) ? 'met' : 'missed';
}

function goalOf({ goal }: Figure): string {
  return 'atLeast' in goal ? `≥ ${digits(goal.atLeast)}` : `≤ ${digits(goal.atMost)}`;
}
