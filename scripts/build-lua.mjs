// Compiles lib/stores/wire/lua/*.lua into lua.generated.ts: puts in the shared functions, and makes of each header both ends of
// its protocol, the lines of Lua that bind what a request says (lua/bindings.mjs) and the TypeScript that says it
// (lua/requests.mjs) and reads the reply (lua/replies.mjs). `--check` writes nothing and fails when a build would.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { bound, checkBindings } from './lua/bindings.mjs';
import { parseHeader } from './lua/header.mjs';
import { camel } from './lua/names.mjs';
import { repliesOf } from './lua/replies.mjs';
import { requestsOf } from './lua/requests.mjs';

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
  const end = lines.findIndex((line) => !line.startsWith('--- ') || line.startsWith('--- @'));
  const header = parseHeader(file, lines.slice(0, end));
  checkBindings(file, lines.slice(end), header, stripComment);
  const pieces = piecesOf(file, lines.slice(end), dir);
  const texts = pieces.map(({ name, lines: own }) => ({ name, text: strip(name === undefined ? own.flatMap((line) => bound(file, line, header)) : own) }));
  const kept = texts.filter(({ text }) => text !== '');
  const source = kept.map(({ text }) => text).join('\n');
  const name = basename(file, '.lua');
  const protocol = [requestsOf(name, header), repliesOf(file, name, lines.slice(0, end))].filter((text) => text !== '').join('\n');
  return { name, sha1: createHash('sha1').update(source).digest('hex'), texts: kept, protocol };
}

const quoted = (text) => text.replace(/[`\\]|\$\{/g, '\\$&');

function moduleOf({ name, sha1, texts, protocol }) {
  const source = texts.map((piece) => (piece.name === undefined ? quoted(piece.text) : `\${${camel(piece.name)}}`)).join('\n');
  return `export const ${camel(name)}: LuaScript = {
  name: '${name}',
  sha1: '${sha1}',
  source: \`${source}\`,
};

${protocol}`;
}

/** The lengths in shared/limits.lua that the functions below add to what a caller says. */
function limitsOf(text = '') {
  const [, graceMs] = /^local LOCK_GRACE_MS = (\d+)$/m.exec(text) ?? [];
  if (graceMs === undefined) return [];
  return [`/** For how long the key of a lock is kept after its last lease, in ms (shared/limits.lua). */\nconst LOCK_GRACE_MS = ${graceMs};\n`];
}

/** The text of the module that stands for all scripts of a folder. */
export function compileFolder(dir) {
  const scripts = readdirSync(dir).filter((file) => file.endsWith('.lua')).sort().map((file) => compile(dir, file));
  const named = new Map(scripts.flatMap(({ texts }) => texts).filter(({ name }) => name !== undefined).map(({ name, text }) => [name, text]));
  const shared = [...named].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, text]) => `const ${camel(name)} = \`${quoted(text)}\`;\n`);
  return `// Made by scripts/build-lua.mjs from lua/*.lua; never edited.
import type { LockMode } from '../../core/port/lock-options.js';
import { fromField, toField } from './redis-keys.js';
import { unexpected } from './store-failure.js';

/** A script as it is sent. */
export interface LuaScript {
  readonly name: string;
  readonly sha1: string;
  readonly source: string;
}

export type ScriptArgument = string | number;

/** A reply that is a list. */
export type ReplyItems = readonly (number | string)[];

/** A script with what it is given. */
export interface BuiltCall {
  readonly script: LuaScript;
  readonly keys: readonly string[];
  readonly args: readonly ScriptArgument[];
}

${[...limitsOf(named.get('shared/limits')), ...shared, ...scripts.map(moduleOf)].join('\n')}`;
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
