/** The compiler of the scripts: what it emits, and which headers it refuses. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

const SCRIPT = fileURLToPath(new URL('../../scripts/build-lua.mjs', import.meta.url));
const { compileFolder } = (await import(SCRIPT)) as { readonly compileFolder: (folder: string) => string };
const HEADER = ['--- Takes a thing.', '--- KEYS[1] thingKey  the thing', '--- ARGV[1] id: text  of the taker', '--- RETURNS 1 taken', '--- INVARIANT none is lost'];
const BIND = '--- @bind';
/** What the build makes of it. */
const BINDINGS = ['local thingKey = KEYS[1]', 'local id = ARGV[1]'];
const MANY = [
  '--- Takes things.',
  '--- KEYS[...] keys  for each:',
  '---   thingKey  the thing',
  '---   shelfKey  where it stands',
  '--- ARGV[...] requests  for each:',
  '---   id: text  of the taker',
  '---   terms: <mode> <floor>,<owner>  how it is taken',
  '---     mode: mode  to read or to write',
  '---     floor: number of 4 digits  not below it',
  '---     owner: encoded or -  for whom',
  '--- RETURNS 1 taken',
];

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
  const built = () => compileFolder(folder);
  /** The source of the script, with the shared declarations that it names in their places. */
  const source = (text: string) =>
    [.../source: \[([\s\S]*?)\]\.join/.exec(text)![1]!.matchAll(/`([^`]*)`|shared\.(\w+)/g)]
      .map(([, own, name]) => own ?? new RegExp(`^  ${name}: \`([^\`]*)\``, 'm').exec(text)![1]!).join('\n');

  it('makes of the header a function that builds a call by name', () => {
    write('take-it.lua', ...HEADER, BIND, 'return 1');
    const text = built();
    expect(text).toContain("export const takeIt: LuaScript = {\n  name: 'take-it',");
    expect(text).toContain('export interface TakeItArgs {\n  /** The id of the taker. */\n  readonly id: string;\n}');
    expect(text).toContain('takeItCall(on: TakeItKeys, request: TakeItArgs): BuiltCall {\n  return { script: takeIt, keys: [on.thingKey], args: [request.id] };');
  });

  it('makes of a header for any number of requests a function that adds one, with packed fields in their layout', () => {
    write('take.lua', ...MANY, BIND, 'return 1');
    const text = built();
    expect(text).toContain('addTake(keys: ScriptArgument[], args: ScriptArgument[], on: TakeKeys, request: TakeArgs): void {\n  keys.push(on.thingKey, on.shelfKey);');
    const words = "request.mode === 'write' ? 'w' : 'r', `${String(request.floor).padStart(4, '0')},${request.owner === undefined ? '-' : toField(request.owner)}`";
    expect(text).toContain(`args.push(request.id, [${words}].join(' '));`);
    expect(text).toContain('readonly owner?: string | undefined;');
  });

  it('binds the fields of one request to locals, and cuts those of a fixed width out of what they are packed in', () => {
    write('take.lua', ...MANY, BIND, 'for n = 1, count do', '  --- @bind shelfKey, id, floor of n', 'end', 'return 1');
    expect(source(built())).toBe([
      'local keys = KEYS', 'local args, count = ARGV, #ARGV / 2', 'for n = 1, count do',
      '  local shelfKey, id, floor = keys[2 * n], args[2 * n - 1], string.sub(args[2 * n], 3, 6)', 'end', 'return 1',
    ].join('\n'));
  });

  it('reads a whole request into a table by name', () => {
    write('take.lua', ...MANY, BIND, '--- @request', 'return 1');
    expect(source(built())).toContain([
      'local function requestOf(n)', "  local mode, floor, owner = string.match(args[2 * n], '^(.) (%S+),(%S+)$')",
      '  return { thingKey = keys[2 * n - 1], shelfKey = keys[2 * n], id = args[2 * n - 1], mode = mode, floor = tonumber(floor), owner = owner }', 'end',
    ].join('\n'));
  });

  it('strips comments and blank lines, but not what looks like one inside a string', () => {
    write('take.lua', ...HEADER, BIND, '', '-- why', "local dashes = '--' -- why", 'return 1');
    expect(source(built())).toBe([...BINDINGS, "local dashes = '--'", 'return 1'].join('\n'));
  });

  it('gives the sha1 of the text as sent', () => {
    write('take.lua', ...HEADER, BIND, 'return 1');
    const sha1 = createHash('sha1').update([...BINDINGS, 'return 1'].join('\n')).digest('hex');
    expect(built()).toContain(`sha1: '${sha1}'`);
  });

  it('pulls a shared file in once, where it is first named', () => {
    write('shared/time.lua', '-- The time.', 'local now = 1');
    write('shared/queue.lua', '--- @include shared/time', 'local queue = now');
    write('take.lua', ...HEADER, BIND, '--- @include shared/queue', '--- @include shared/time', 'return now + queue');
    expect(source(built())).toBe([...BINDINGS, 'local now = 1', 'local queue = now', 'return now + queue'].join('\n'));
  });

  it('leaves out what a script does not use of a shared file, also where only that which is left out uses it', () => {
    write('shared/lists.lua', 'local function first(list)', '  return list[1]', 'end', 'local function head(list)', '  return first(list)', 'end', 'local seen, told = {}, {}');
    write('shared/more.lua', 'local function last(list)', '  return list[#list]', 'end');
    write('take.lua', ...HEADER, BIND, '--- @include shared/lists', '--- @include shared/more', 'return last(told)');
    expect(source(built())).toBe([...BINDINGS, 'local seen, told = {}, {}', 'local function last(list)', '  return list[#list]', 'end', 'return last(told)'].join('\n'));
  });

  it('writes constants as literals, wherever they are named', () => {
    write('shared/limits.lua', 'local LEASE_MS = 2500 -- at most', "local TURN = '~>'", 'local LEAST, MOST = 1, 16', 'local function most()', '  return MOST', 'end');
    write('take.lua', ...HEADER, BIND, '--- @include shared/limits', 'local WHO = NOBODY', 'return LEASE_MS + LEAST + most() .. TURN .. WHO');
    expect(source(built())).toBe([...BINDINGS, 'local function most()', '  return 16', 'end', 'local WHO = NOBODY', "return 2500 + 1 + most() .. '~>' .. WHO"].join('\n'));
  });

  it('writes nothing when nothing changed', () => {
    write('take.lua', ...HEADER, BIND, 'return 1');
    expect(build()).toMatchObject({ status: 0, stderr: '' });
    const { mtimeNs } = statSync(out(), { bigint: true });
    build();
    expect(statSync(out(), { bigint: true }).mtimeNs).toBe(mtimeNs);
  });

  it('says with --check that the module is stale, and leaves it alone', () => {
    write('take.lua', ...HEADER, BIND, 'return 1');
    build();
    const before = readFileSync(out(), 'utf8');
    write('take.lua', ...HEADER, BIND, 'return 2');
    expect(build('--check')).toMatchObject({ status: 1, stderr: expect.stringContaining('npm run build:lua') });
    expect(readFileSync(out(), 'utf8')).toBe(before);
  });

  const [sentence = '', key = '', arg = '', returns = '', invariant = ''] = HEADER;
  it.each([
    ['a script that does not bind what its header names', [...HEADER, 'return 1'], 'expected "--- @bind"'],
    ['a key out of order', [sentence, '--- KEYS[2] thingKey  the thing', arg, returns, BIND], 'out of order'],
    ['a key behind a list of keys', [sentence, '--- KEYS[...] things  all', '--- KEYS[1] thingKey  the thing', returns, BIND], 'nothing follows'],
    ['no sentence', [key, arg, returns, BIND], 'one sentence'],
    ['no RETURNS', [sentence, key, arg, BIND], 'RETURNS'],
    ['an invariant before the keys', [sentence, invariant, key, arg, returns, BIND], 'order'],
    ['a key without a meaning', [sentence, '--- KEYS[1] thingKey', arg, returns, BIND], 'name meaning'],
    ['a kind that nobody knows', [sentence, key, '--- ARGV[1] id: colour  of the taker', returns, BIND], '"colour" is none of'],
    ['two fields of one name', [sentence, key, '--- ARGV[1] thingKey: text  again', returns, BIND], 'two fields of the name thingKey'],
    ['a field of nothing', [sentence, key, returns, invariant, '---   id: text  of the taker', BIND], 'belongs to no'],
    ['a layout without its parts', [...MANY.filter((line) => !line.includes('floor:')), BIND], 'do not agree'],
    ['KEYS in use by its number', [...HEADER, BIND, "redis.call('DEL', KEYS[1])"], 'bound by their names'],
    ['a field that the header does not name', [...MANY, BIND, '--- @bind colour of n'], 'names no colour'],
    ['a part of fixed width behind one without', [...MANY.slice(0, 6), '---   terms: <owner> <mode>  how it is taken', MANY[9]!, MANY[7]!, MANY[10]!, BIND, '--- @bind mode of n'], 'no fixed place'],
    ['parts that stand in another order', [...MANY.slice(0, 6), '---   terms: <mode> <owner> <label>  how it is taken', MANY[7]!, MANY[9]!, '---     label: encoded or -  what is read', MANY[10]!, BIND, '--- @bind label, owner of n'], 'do not stand in this order'],
    ['a reply with a field of no kind', [...HEADER.slice(0, 3), '--- RETURNS 1 granted: fence colour', BIND], 'no field of a reply'],
    ['a directive that nobody knows', [...HEADER, BIND, '--- @forget'], 'no directive'],
    ['an include of nothing', [...HEADER, BIND, '--- @include shared/nothing'], 'no shared/nothing.lua'],
  ])('refuses %s', (_, lines, message) => {
    write('take.lua', ...lines);
    expect(built).toThrow(message);
  });
});

it('the committed module is what the Lua files say', () => {
  expect(spawnSync(process.execPath, [SCRIPT, '--check'], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
});
