// Compiles lib/stores/wire/lua/*.lua into lua.generated.ts: puts in those shared functions that a script uses, and makes of each
// header both ends of its protocol, the lines of Lua that bind what a request says (lua/bindings.mjs) and the TypeScript that says it
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

/** The lines of a shared file that is named here for the first time, behind those of the files that it names itself. */
function sharedLines(file, name, dir, seen) {
  if (seen.has(name)) return [];
  seen.add(name);
  const path = join(dir, `${name}.lua`);
  if (!existsSync(path)) throw new Error(`${file}: there is no ${name}.lua to include`);
  const lines = readFileSync(path, 'utf8').split('\n');
  const named = lines.map(includedBy).filter((other) => other !== undefined);
  return [...named.flatMap((other) => sharedLines(`${name}.lua`, other, dir, seen)), ...lines.filter((line) => includedBy(line) === undefined)];
}

function strip(lines) {
  return lines.map(stripComment).filter((line) => line.trim() !== '').join('\n');
}

/**
 * What a script is put together from: texts of its own, and between them the declarations of the shared files, each with the names
 * that it declares.
 */
function piecesOf(file, lines, dir, header) {
  const seen = new Set();
  const pieces = [{ names: [], lines: [] }];
  for (const line of lines) {
    const name = includedBy(line);
    if (name === undefined) pieces.at(-1).lines.push(...bound(file, line, header));
    else {
      const declarations = strip(sharedLines(file, name, dir, seen)).split(/^(?=local )/m).filter((text) => text !== '');
      pieces.push(...declarations.map((text) => ({ names: namesOf(text), lines: [text.trimEnd()] })), { names: [], lines: [] });
    }
  }
  return pieces.map(({ names, lines: own }) => ({ names, text: strip(own) })).filter(({ text }) => text !== '');
}

const namesOf = (declaration) => /^local (?:function )?(\w+(?:, \w+)*)/.exec(declaration)[1].split(', ');

const CONSTANTS = /^local ([A-Z][A-Z_]*(?:, [A-Z][A-Z_]*)*) = ((?:\d+|'[^']*')(?:, \d+)*)$/gm;

/** Constants as literals: each function that names a local keeps a reference to it, which the server makes anew whenever the script runs. */
function withoutConstants(pieces) {
  const values = new Map(pieces.flatMap(({ text }) => [...text.matchAll(CONSTANTS)]).flatMap(([, names, all]) => zipped(names.split(', '), all.split(', '))));
  return pieces.flatMap(({ names, text }) => {
    const rest = text.replace(CONSTANTS, '').replace(/\b[A-Z][A-Z_]+\b/g, (name) => values.get(name) ?? name);
    return rest.trim() === '' ? [] : [{ names, text: rest }];
  });
}

const zipped = (names, values) => names.map((name, at) => [name, values[at]]);

/** Without the declarations that nothing names which is kept: the server makes each function of a script anew whenever it runs. */
function withoutUnused(pieces) {
  const kept = [];
  const named = new Set();
  for (const piece of pieces.toReversed()) {
    if (piece.names.length > 0 && !piece.names.some((name) => named.has(name))) continue;
    kept.unshift(piece);
    for (const [word] of piece.text.matchAll(/\w+/g)) named.add(word);
  }
  return kept;
}

function compile(dir, file) {
  const lines = readFileSync(join(dir, file), 'utf8').split('\n');
  const end = lines.findIndex((line) => !line.startsWith('--- ') || line.startsWith('--- @'));
  const header = parseHeader(file, lines.slice(0, end));
  checkBindings(file, lines.slice(end), header, stripComment);
  const pieces = withoutUnused(withoutConstants(piecesOf(file, lines.slice(end), dir, header)));
  const source = pieces.map(({ text }) => text).join('\n');
  const name = basename(file, '.lua');
  const protocol = [requestsOf(name, header), repliesOf(file, name, lines.slice(0, end))].filter((text) => text !== '').join('\n');
  return { name, sha1: createHash('sha1').update(source).digest('hex'), pieces, protocol };
}

const quoted = (text) => text.replace(/[`\\]|\$\{/g, '\\$&');

function moduleOf({ name, sha1, pieces, protocol }) {
  const source = pieces.map(({ names: [shared], text }) => (shared === undefined ? `\`${quoted(text)}\`` : `shared.${shared}`)).join(', ');
  return `export const ${camel(name)}: LuaScript = {
  name: '${name}',
  sha1: '${sha1}',
  source: [${source}].join('\\n'),
};

${protocol}`;
}

/** The lengths in shared/limits.lua that the functions below add to what a caller says. */
function limitsOf(dir) {
  const path = join(dir, 'shared/limits.lua');
  const [, graceMs] = /^local LOCK_GRACE_MS = (\d+)$/m.exec(existsSync(path) ? readFileSync(path, 'utf8') : '') ?? [];
  if (graceMs === undefined) return [];
  return [`/** For how long the key of a lock is kept after its last lease, in ms (shared/limits.lua). */\nconst LOCK_GRACE_MS = ${graceMs};\n`];
}

/** The text of the module that stands for all scripts of a folder. */
export function compileFolder(dir) {
  const scripts = readdirSync(dir).filter((file) => file.endsWith('.lua')).sort().map((file) => compile(dir, file));
  const shared = new Map(scripts.flatMap(({ pieces }) => pieces).filter(({ names }) => names.length > 0).map(({ names: [name], text }) => [name, text]));
  return `// Made by scripts/build-lua.mjs from lua/*.lua; never edited.
import type { LockMode } from '../../core/port/lock-options.js';
import { fromField, toField } from './redis-keys.js';
import { eachOf, listOf, UnexpectedReplyError } from './store-failure.js';

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

/** What scripts share: the declarations of lua/shared, each by the first name that it declares. */
const shared = {
${[...shared].map(([name, text]) => `  ${name}: \`${quoted(text)}\`,\n`).join('')}};

${[...limitsOf(dir), ...scripts.map(moduleOf)].join('\n')}`;
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
