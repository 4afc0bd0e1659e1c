// Compiles lib/stores/wire/lua/*.lua into lua.generated.ts: puts in the shared functions, holds each header against
// its body, and takes the names of keys and arguments from it. `--check` writes nothing and fails when a build would.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ORDER = ['sentence', 'KEYS', 'ARGV', 'RETURNS', 'INVARIANT'];

/** The header's names of keys and arguments; `[...]` stands for a repeated group and must be alone. */
function parseHeader(file, lines) {
  const names = { KEYS: [], ARGV: [] };
  const kinds = lines.map((line) => /^--- (KEYS|ARGV|RETURNS|INVARIANT)\b/.exec(line)?.[1] ?? 'sentence');
  if (!/^--- [A-Z].*\.$/.test(lines[0] ?? '') || kinds.lastIndexOf('sentence') !== 0) throw new Error(`${file}: the header begins with one sentence`);
  if (kinds.some((kind, i) => i > 0 && ORDER.indexOf(kind) < ORDER.indexOf(kinds[i - 1]))) throw new Error(`${file}: the header's order is ${ORDER.join(', ')}`);
  if (!kinds.includes('RETURNS')) throw new Error(`${file}: the header does not say what the script RETURNS`);
  for (const line of lines.filter((_, i) => kinds[i] === 'KEYS' || kinds[i] === 'ARGV')) {
    const [, kind, at, name] = /^--- (KEYS|ARGV)\[(\d+|\.\.\.)\] (\w+) +\S/.exec(line) ?? [];
    if (kind === undefined) throw new Error(`${file}: expected "KEYS[n] name meaning", got "${line}"`);
    if (at !== '...' && Number(at) !== names[kind].length + 1) throw new Error(`${file}: ${kind}[${at}] is out of order`);
    names[kind].push(at === '...' ? `...${name}` : name);
    if (names[kind].length > 1 && names[kind].some((each) => each.startsWith('...'))) throw new Error(`${file}: ${kind}[...] stands alone`);
  }
  return names;
}

/** The first lines bind every key and argument of the header to a local, and nothing after them mentions KEYS or ARGV. */
function checkBody(file, body, names) {
  const code = body.map(stripComment).filter((line) => line.trim() !== '');
  const uses = (line) => /\b(KEYS|ARGV)\b/.test(line);
  const bindings = code.findIndex((line) => !(line.startsWith('local ') && uses(line)));
  const [first, rest] = bindings < 0 ? [code, []] : [code.slice(0, bindings), code.slice(bindings)];
  for (const kind of ['KEYS', 'ARGV']) {
    const bound = first.join('\n').match(new RegExp(`\\b${kind}\\b(\\[\\d+\\])?`, 'g')) ?? [];
    const said = names[kind].map((name, i) => (name.startsWith('...') ? kind : `${kind}[${i + 1}]`));
    if (bound.join() !== said.join()) throw new Error(`${file}: the header names ${said.join(', ') || `no ${kind}`}; the first lines bind ${bound.join(', ') || 'none'}`);
  }
  const late = rest.find(uses);
  if (late !== undefined) throw new Error(`${file}: KEYS and ARGV are bound in the first lines only, not in "${late.trim()}"`);
}

function stripComment(line) {
  return line.replace(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|--.*$/g, (_, string) => string ?? '').trimEnd();
}

const includedBy = (line) => /^--- @include (shared\/[\w-]+)$/.exec(line)?.[1];

/** A shared file that is named here for the first time, as one piece, after those that it names itself. */
function sharedPieces(file, name, dir, seen) {
  if (seen.has(name)) return [];
  seen.add(name);
  const path = join(dir, `${name}.lua`);
  if (!existsSync(path)) throw new Error(`${file}: there is no ${name}.lua to include`);
  const lines = readFileSync(path, 'utf8').split('\n');
  const named = lines.map(includedBy).filter((other) => other !== undefined);
  return [...named.flatMap((other) => sharedPieces(`${name}.lua`, other, dir, seen)), { name, lines: lines.filter((line) => includedBy(line) === undefined) }];
}

/** The lines of a script and the shared files between them: `{ name, lines }`, where lines of the script itself have no name. */
function piecesOf(file, lines, dir) {
  const seen = new Set();
  const pieces = [{ lines: [] }];
  for (const line of lines) {
    const name = includedBy(line);
    if (name === undefined) pieces.at(-1).lines.push(line);
    else pieces.push(...sharedPieces(file, name, dir, seen), { lines: [] });
  }
  return pieces;
}

function strip(lines) {
  return lines.map(stripComment).filter((line) => line.trim() !== '').join('\n');
}

function compile(dir, file) {
  const lines = readFileSync(join(dir, file), 'utf8').split('\n');
  const end = lines.findIndex((line) => !line.startsWith('--- ') || line.startsWith('--- @include'));
  const { KEYS, ARGV } = parseHeader(file, lines.slice(0, end));
  const pieces = piecesOf(file, lines.slice(end), dir);
  checkBody(file, pieces.flatMap((piece) => piece.lines), { KEYS, ARGV });
  const texts = pieces.map((piece) => ({ name: piece.name, text: strip(piece.lines) })).filter(({ text }) => text !== '');
  const source = texts.map(({ text }) => text).join('\n');
  return { name: basename(file, '.lua'), sha1: createHash('sha1').update(source).digest('hex'), keys: KEYS, args: ARGV, texts };
}

/** The text of the module that stands for all scripts of a folder. */
export function compileFolder(dir) {
  const scripts = readdirSync(dir).filter((file) => file.endsWith('.lua')).sort().map((file) => compile(dir, file));
  const list = (names) => `[${names.map((name) => `'${name}'`).join(', ')}]`;
  const quoted = (text) => text.replace(/[`\\]|\$\{/g, '\\$&');
  const constantOf = (name) => name.replace(/[-/](\w)/g, (_, letter) => letter.toUpperCase());
  const named = new Map(scripts.flatMap(({ texts }) => texts).filter(({ name }) => name !== undefined).map(({ name, text }) => [name, text]));
  const shared = [...named].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, text]) => `const ${constantOf(name)} = \`${quoted(text)}\`;\n`);
  const blocks = scripts.map(({ name, sha1, keys, args, texts }) => {
    const source = texts.map((piece) => (piece.name === undefined ? quoted(piece.text) : `\${${constantOf(piece.name)}}`)).join('\n');
    return `export const ${constantOf(name)} = {
  name: '${name}',
  sha1: '${sha1}',
  keys: ${list(keys)},
  args: ${list(args)},
  source: \`${source}\`,
} as const satisfies LuaScript;
`;
  });
  return `// Made by scripts/build-lua.mjs from lua/*.lua; never edited.

/** A script as it is sent, and what its header calls its keys and arguments. A name with dots stands for a repeated group. */
export interface LuaScript {
  readonly name: string;
  readonly sha1: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
  readonly source: string;
}

${[...shared, ...blocks].join('\n')}`;
}

function main(args) {
  const [dir, out] = args.filter((arg) => arg !== '--check');
  const folder = dir ?? fileURLToPath(new URL('../lib/stores/wire/lua', import.meta.url));
  const target = out ?? fileURLToPath(new URL('../lib/stores/wire/lua.generated.ts', import.meta.url));
  const text = compileFolder(folder);
  if (existsSync(target) && readFileSync(target, 'utf8') === text) return;
  if (args.includes('--check')) throw new Error(`${basename(target)} is not what the Lua files say: run npm run build:lua and commit it`);
  writeFileSync(target, text);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    main(process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
