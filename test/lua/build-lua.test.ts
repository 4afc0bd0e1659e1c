/** The compiler of the scripts: what it emits, and which headers it refuses. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const SCRIPT = fileURLToPath(new URL('../../scripts/build-lua.mjs', import.meta.url));
const HEADER = ['--- Takes a thing.', '--- KEYS[1] thingKey  the thing', '--- ARGV[1] id  of the taker', '--- RETURNS 1 taken', '--- INVARIANT none is lost'];
const BINDINGS = ['local thingKey = KEYS[1]', 'local id = ARGV[1]'];

describe('the build of the scripts', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-lua-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (file: string, ...lines: string[]) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), `${lines.join('\n')}\n`);
  };
  const out = () => join(folder, 'out.ts');
  const build = (...args: string[]) => spawnSync(process.execPath, [SCRIPT, folder, out(), ...args], { encoding: 'utf8' });
  const built = () => {
    expect(build().stderr).toBe('');
    return readFileSync(out(), 'utf8');
  };
  /** The source of the script, with the shared constants that it names in their places. */
  const source = (text: string) =>
    /source: `([\s\S]*?)`,/.exec(text)?.[1]?.replace(/\$\{(\w+)\}/g, (_, name) => new RegExp(`const ${name} = \`([\\s\\S]*?)\`;`).exec(text)![1]!);

  it('names keys and arguments as the header does', () => {
    write('take-it.lua', ...HEADER, ...BINDINGS, 'return 1');
    expect(built()).toContain("export const takeIt = {\n  name: 'take-it',");
    expect(built()).toContain("keys: ['thingKey'],\n  args: ['id'],");
  });

  it('strips comments and blank lines, but not what looks like one inside a string', () => {
    write('take.lua', ...HEADER, ...BINDINGS, '', '-- why', "local dashes = '--' -- why", 'return 1');
    expect(source(built())).toBe([...BINDINGS, "local dashes = '--'", 'return 1'].join('\n'));
  });

  it('gives the sha1 of the text as sent', () => {
    write('take.lua', ...HEADER, ...BINDINGS, 'return 1');
    const sha1 = createHash('sha1').update([...BINDINGS, 'return 1'].join('\n')).digest('hex');
    expect(built()).toContain(`sha1: '${sha1}'`);
  });

  it('pulls a shared file in once, where it is first named', () => {
    write('shared/time.lua', '-- The time.', 'local now = 1');
    write('shared/queue.lua', '--- @include shared/time', 'local queue = now');
    write('take.lua', ...HEADER, ...BINDINGS, '--- @include shared/queue', '--- @include shared/time', 'return now');
    expect(source(built())).toBe([...BINDINGS, 'local now = 1', 'local queue = now', 'return now'].join('\n'));
  });

  it('knows scripts for any number of locks', () => {
    const header = ['--- Renews.', '--- KEYS[...] keys  the locks', '--- ARGV[...] requests  for each: id', '--- RETURNS 1 done'];
    write('renew.lua', ...header, 'local keys, requests = KEYS, ARGV', 'return 1');
    expect(built()).toContain("keys: ['...keys'],\n  args: ['...requests'],");
  });

  it('writes nothing when nothing changed', () => {
    write('take.lua', ...HEADER, ...BINDINGS, 'return 1');
    built();
    const { mtimeNs } = statSync(out(), { bigint: true });
    built();
    expect(statSync(out(), { bigint: true }).mtimeNs).toBe(mtimeNs);
  });

  it('says with --check that the module is stale, and leaves it alone', () => {
    write('take.lua', ...HEADER, ...BINDINGS, 'return 1');
    const before = built();
    write('take.lua', ...HEADER, ...BINDINGS, 'return 2');
    expect(build('--check')).toMatchObject({ status: 1, stderr: expect.stringContaining('npm run build:lua') });
    expect(readFileSync(out(), 'utf8')).toBe(before);
  });

  const [sentence = '', key = '', arg = '', returns = '', invariant = ''] = HEADER;
  it.each([
    ['more keys than the body binds', [sentence, key, '--- KEYS[2] other  another', arg, returns, ...BINDINGS], 'bind KEYS[1]'],
    ['fewer arguments than the body binds', [sentence, key, returns, ...BINDINGS], 'names no ARGV'],
    ['a key out of order', [sentence, '--- KEYS[2] thingKey  the thing', arg, returns, ...BINDINGS], 'out of order'],
    ['no sentence', [key, arg, returns, ...BINDINGS], 'one sentence'],
    ['no RETURNS', [sentence, key, arg, ...BINDINGS], 'RETURNS'],
    ['an invariant before the keys', [sentence, invariant, key, arg, returns, ...BINDINGS], 'order'],
    ['a key without a meaning', [sentence, '--- KEYS[1] thingKey', arg, returns, ...BINDINGS], 'name meaning'],
    ['KEYS in use after the bindings', [...HEADER, ...BINDINGS, "redis.call('DEL', KEYS[1])"], 'first lines only'],
    ['an include of nothing', [...HEADER, ...BINDINGS, '--- @include shared/nothing'], 'no shared/nothing.lua'],
  ])('refuses %s', (_, lines, message) => {
    write('take.lua', ...lines);
    expect(build()).toMatchObject({ status: 1, stderr: expect.stringContaining(message) });
  });
});

it('the committed module is what the Lua files say', () => {
  expect(spawnSync(process.execPath, [SCRIPT, '--check'], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});
