/** The tree is the architecture: which file may know which other. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';

const LIB = fileURLToPath(new URL('../lib', import.meta.url));
const TEST = fileURLToPath(new URL('.', import.meta.url));
const ENTRY_POINTS = ['testing', 'terminus', 'telemetry', 'board', 'cli'];

interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** Ours, as paths below lib/. */
  readonly ours: readonly string[];
  readonly packages: readonly string[];
}

const files = readdirSync(LIB, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .map(read)
  .sort((a, b) => a.path.localeCompare(b.path));

function read(path: string): SourceFile {
  const text = readFileSync(join(LIB, path), 'utf8');
  const imported = [...text.matchAll(/^(?:import|export)\b[^;]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm)].map((match) => match[1] ?? match[2] ?? match[3] ?? '');
  const local = imported.filter((name) => name.startsWith('.'));
  return {
    path,
    text,
    ours: local.map((name) => relative(LIB, resolve(dirname(join(LIB, path)), name)).replace(/\.js$/, '.ts')),
    packages: imported.filter((name) => !name.startsWith('.')),
  };
}

/** All code below test/, by its path there. */
const tests = readdirSync(TEST, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.(?:[cm]?js|ts)$/.test(path) && !path.includes('node_modules'));

/** What the code of the library and of the tests imports by name, as `file#name`; `file#*` when it takes the whole file. */
const imported = new Set(
  [...files.map(({ path }) => join(LIB, path)), ...tests.map((path) => join(TEST, path))].flatMap((importer) => {
    const text = readFileSync(importer, 'utf8');
    const found = [...text.matchAll(/^(?:import|export)\s+(?:type\s+)?(?:\{([^}]*)\}|\* as \w+)\s+from\s+'(\.[^']+)'/gm)];
    return found.flatMap(([, names = '*', from = '']) => {
      const file = relative(LIB, resolve(dirname(importer), from)).replace(/\.js$/, '.ts');
      const plain = names.split(',').map((name) => name.trim().replace(/^type /, '').replace(/ as .*/s, ''));
      return plain.map((name) => `${file}#${name}`);
    });
  }),
);

/** Which part of the library a file belongs to: a room of core, a store, a folder, or the file itself. */
function partOf(path: string): string {
  const [first = '', second = ''] = path.split('/');
  if (first === 'stores' || first === 'core') return `${first}/${second}`;
  return path.includes('/') ? first : path;
}

/** The rooms of core, and what each may import besides itself. */
const rooms: Record<string, readonly string[]> = {
  'core/port': [], 'core/key': ['core/port'], 'core/lease': ['core/port'], 'core/queue': ['core/lease', 'core/port'],
  'core/hold': ['core/queue', 'core/lease', 'core/port'],
};
const CORE = Object.keys(rooms);

/** The arrows: what each part may import besides itself. */
const arrows: Record<string, readonly string[]> = {
  ...rooms,
  'lock.service.ts': CORE,
  'fenced-write.ts': ['core/port', 'stores/wire'],
  'stores/memory': CORE,
  'stores/wire': CORE,
  'stores/redis': [...CORE, 'stores/wire'],
  'stores/redlock': [...CORE, 'stores/redis', 'stores/wire'],
  nest: ['lock.service.ts', ...CORE, 'stores/memory', 'stores/wire', 'stores/redis', 'stores/redlock'],
  // What makes many locks readable for people is the board's, and the command line prints the same.
  cli: ['board/lock-overview.ts'],
};
const BEHIND_ENTRY_POINTS = ['nest', 'lock.service.ts', ...CORE, 'stores/memory', 'stores/wire', 'stores/redis', 'stores/redlock'];
const KNOWS_EVERY_STORE = 'nest/lock-providers.ts';
/** Which stores a file of nest/ knows; the wire is no store. */
const STORES = ['stores/memory', 'stores/redis', 'stores/redlock'];

function mayImport(from: string, to: string): boolean {
  const [part, other] = [partOf(from), partOf(to)];
  if (part === other || (arrows[part] ?? []).includes(to)) return true;
  if (part === 'index.ts') return !ENTRY_POINTS.includes(other) && !other.startsWith('stores/');
  // Entry points for optional peers stand on the library, not on each other; the tests of users get nothing that the rest lacks.
  if (ENTRY_POINTS.includes(part)) return BEHIND_ENTRY_POINTS.includes(other);
  return (arrows[part] ?? []).includes(other);
}

/** `file: what` for everything a rule finds. */
function offences(among: readonly SourceFile[], find: (file: SourceFile) => readonly string[]): string[] {
  return among.flatMap((file) => find(file).map((what) => `${file.path}: ${what}`));
}

const core = files.filter(({ path }) => path.startsWith('core/'));
const written = files.filter(({ path }) => !path.endsWith('.generated.ts'));
const code = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');

describe('the architecture', () => {
  it('sends its arrows one way: nest -> lock.service -> core <- stores', () => {
    expect(offences(files, ({ path, ours }) => ours.filter((target) => !mayImport(path, target)))).toEqual([]);
  });

  it('knows more than one store only in lock-providers.ts', () => {
    const others = files.filter(({ path }) => partOf(path) === 'nest' && path !== KNOWS_EVERY_STORE);
    const stores = (ours: readonly string[]) => [...new Set(ours.map(partOf).filter((part) => STORES.includes(part)))];
    expect(offences(others, ({ ours }) => (stores(ours).length > 1 ? stores(ours) : []))).toEqual([]);
  });

  it('writes the state of a lease only in its class', () => {
    const others = files.filter(({ path }) => path.startsWith('core/') && path !== 'core/lease/store-lease.ts');
    const state = 'state|trustedUntil|contended|heardAt|memory|isRenewing|renewUntil|renews|fence|users|admittedAt|abandoned';
    // Whatever the lease is called there. What an object writes of itself is another thing of the same name.
    const write = new RegExp(String.raw`\b(?!this\b)\w+[?!)]*\.(?:${state})\s*(?:[-+*?]*=(?![=>])|\+\+|--)`, 'g');
    expect(code('one.lease!.trustedUntil = 5; this.fence = 3').match(write)).toEqual(['lease!.trustedUntil =']);
    expect(offences(others, ({ text }) => code(text).match(write) ?? [])).toEqual([]);
  });

  it('imports lib/index.ts only from outside', () => {
    expect(offences(files, ({ ours }) => ours.filter((target) => target === 'index.ts'))).toEqual([]);
  });

  it('keeps core free of Nest, of ioredis and of all of Node but the async context, the uptime in clock.ts and the random numbers in ticket.ts', () => {
    const also: Record<string, readonly string[]> = { 'core/port/clock.ts': ['node:os'], 'core/port/ticket.ts': ['node:crypto'] };
    const allowed = (path: string) => ['node:async_hooks', ...(also[path] ?? [])];
    expect(offences(core, ({ path, packages }) => packages.filter((name) => !allowed(path).includes(name)))).toEqual([]);
  });

  it('lets core reach time through clock.ts only', () => {
    const time = /\b(?:Date\.now|new Date\(\)|performance\.|setTimeout|setInterval|process\.hrtime|process\.uptime)/g;
    const reaching = core.filter(({ path }) => path !== 'core/port/clock.ts');
    expect(offences(reaching, ({ text }) => code(text).match(time) ?? [])).toEqual([]);
  });

  it('knows Nest only in nest/ and the entry points, and ioredis only in the stores', () => {
    const nestless = files.filter(({ path }) => !['nest', 'index.ts', ...ENTRY_POINTS].includes(partOf(path)));
    expect(offences(nestless, ({ packages }) => packages.filter((name) => name.startsWith('@nestjs/')))).toEqual([]);
    const redisless = files.filter(({ path }) => [...CORE, 'lock.service.ts', 'stores/memory'].includes(partOf(path)));
    expect(offences(redisless, ({ packages }) => packages.filter((name) => name === 'ioredis'))).toEqual([]);
  });

  it('names what it exports', () => expect(offences(files, ({ text }) => code(text).match(/^export (?:\*|default\b).*/gm) ?? [])).toEqual([]));

  it('exports only what another file imports', () => {
    const declared = /^export (?:abstract |async )?(?:function\*?|class|const|interface|type) (\w+)/gm;
    const unused = ({ path, text }: SourceFile) => [...text.matchAll(declared)].map(([, name = '']) => name).filter((name) => !imported.has(`${path}#${name}`));
    expect(imported.size).toBeGreaterThan(500);
    expect(offences(written, unused)).toEqual([]);
  });

  it('names files after things', () => {
    const vague = /(?:^|[/.-])(?:utils?|helpers?|common|misc|types?|interfaces?|constants?)\.ts$/;
    expect(offences(files, ({ path }) => (vague.test(path) ? ['says nothing'] : []))).toEqual([]);
  });

  it('loads in CommonJS: no top-level await, no import.meta', () => {
    expect(offences(files, ({ text }) => code(text).match(/^await .*|import\.meta/gm) ?? [])).toEqual([]);
  });

  it('begins every file with what it is', () => {
    expect(offences(written.filter(({ path }) => !path.endsWith('index.ts')), ({ text }) => (/^(?:#!.*\n)?(?:\/\*\*|\/\/)/.test(text) ? [] : ['no first sentence']))).toEqual([]);
  });
});
