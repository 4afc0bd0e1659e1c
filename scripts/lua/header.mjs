// Reads the header of a script: one sentence, then what its KEYS and ARGV are called, what it RETURNS, and its INVARIANTs.
//
//     --- KEYS[1] lockKey  meaning             a key of that name; it binds `lockKey`
//     --- ARGV[1] leaseMs: number  meaning     an argument of that name and kind
//     --- ARGV[...] floors: number  meaning    all that follow, as one list
//     --- ARGV[...] requests  meaning          a group that is repeated: the indented lines below name its fields in order
//     ---   id: text  meaning                  a field of the group
//     ---   terms: <mode><queue> <floor>  …    a field into which others are packed, in this layout: its parts are indented below
//     ---     mode: mode  meaning              a part of it
//     ---     keepMs: leaseMs + GRACE_MS  …    what the caller knows as `leaseMs`, and a constant of the scripts more
import { kindOf } from './kinds.mjs';

const ORDER = ['sentence', 'KEYS', 'ARGV', 'RETURNS', 'INVARIANT'];
const FIELD = /^(\w+)(?:: (\S.*?))? {2,}\S.*$/;

export function parseHeader(file, lines) {
  checkOrder(file, lines);
  const header = { KEYS: { head: [], each: undefined }, ARGV: { head: [], each: undefined } };
  let group, packed;
  for (const line of lines) {
    const numbered = /^--- (KEYS|ARGV)\[(\d+|\.\.\.)\] (.*)$/.exec(line);
    const indented = /^---( {3}| {5})(\S.*)$/.exec(line);
    if (numbered) {
      group = addNumbered(file, header[numbered[1]], numbered);
      packed = undefined;
    } else if (indented && indented[1].length === 3) {
      packed = fieldOf(file, line, indented[2], group?.of);
      if (group === undefined) throw new Error(`${file}: "${line}" belongs to no KEYS[...] or ARGV[...]`);
      (group.fields ??= []).push(packed);
    } else if (indented) {
      if (packed?.layout === undefined) throw new Error(`${file}: "${line}" belongs to no packed field`);
      packed.parts.push(fieldOf(file, line, indented[2], 'ARGV'));
    } else {
      if (/^--- (KEYS|ARGV)/.test(line)) throw new Error(`${file}: expected "KEYS[n] name  meaning", got "${line}"`);
      group = packed = undefined;
    }
  }
  checkNames(file, header);
  return header;
}

function checkOrder(file, lines) {
  const kinds = [];
  for (const line of lines) kinds.push(/^--- (KEYS|ARGV|RETURNS|INVARIANT)\b/.exec(line)?.[1] ?? (line.startsWith('---   ') ? kinds.at(-1) : 'sentence'));
  if (!/^--- [A-Z].*\.$/.test(lines[0] ?? '') || kinds.lastIndexOf('sentence') !== 0) throw new Error(`${file}: the header begins with one sentence`);
  if (kinds.some((kind, i) => i > 0 && ORDER.indexOf(kind) < ORDER.indexOf(kinds[i - 1]))) throw new Error(`${file}: the header's order is ${ORDER.join(', ')}`);
  if (!kinds.includes('RETURNS')) throw new Error(`${file}: the header does not say what the script RETURNS`);
}

function addNumbered(file, list, [line, of, at, rest]) {
  if (list.each !== undefined) throw new Error(`${file}: nothing follows ${of}[...]`);
  const field = fieldOf(file, line, rest, of);
  if (at === '...') return (list.each = { ...field, isList: true });
  if (Number(at) !== list.head.length + 1) throw new Error(`${file}: ${of}[${at}] is out of order`);
  list.head.push(field);
  return undefined;
}

function fieldOf(file, line, text, of) {
  const [, name, kind] = FIELD.exec(text) ?? [];
  if (name === undefined) throw new Error(`${file}: expected "name meaning" with two spaces between, got "${line}"`);
  const meaning = text.slice(kind === undefined ? name.length : name.length + 2 + kind.length).trim();
  if (kind?.startsWith('<')) return { name, meaning, layout: kind, parts: [], of };
  return { name, meaning, kind: kindOf(file, line, kind), of };
}

/** Every field has a name of its own, and a layout names the parts that are listed under it. */
function checkNames(file, header) {
  const names = fieldsOf(header).map(({ name }) => name);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new Error(`${file}: the header has two fields of the name ${twice}`);
  for (const { name, layout, parts } of [...(header.ARGV.each?.fields ?? [])].filter((field) => field.layout)) {
    const said = [...layout.matchAll(/<(\w+)>/g)].map(([, part]) => part).join();
    if (said !== parts.map((part) => part.name).join()) throw new Error(`${file}: the layout of ${name} and the parts below it do not agree`);
  }
}

/** All that the header gives a name to, the parts of packed fields among them. */
export function fieldsOf({ KEYS, ARGV }) {
  const ofList = ({ head, each }) => [...head, ...(each === undefined ? [] : (each.fields ?? [each]).flatMap((field) => [field, ...(field.parts ?? [])]))];
  return [...ofList(KEYS), ...ofList(ARGV)];
}

/** Whether a call carries any number of requests, each with its own keys and arguments, and nothing besides. */
export function isForMany({ KEYS, ARGV }) {
  return KEYS.head.length + ARGV.head.length === 0 && KEYS.each?.fields !== undefined && ARGV.each?.fields !== undefined;
}
