// The lines of Lua that bind what a header names, in place of a directive of the script:
//
//     --- @bind                     at the head: keys, arguments and lists to locals of their names; of a repeated group `count`
//     --- @bind id, leaseMs of n    these fields of the nth request to locals, as the text that came; of a packed field the parts
//                                   that have a fixed place are cut out, and those behind them are found by one pattern
//     --- @request                  a function `requestOf(n)`: the nth request as a table, its numbers and flags read; of a script that
//                                   takes one request the table itself, `request`
import { fieldsOf } from './header.mjs';

/** The Lua for a line that is a directive; the line itself for another one. */
export function bound(file, line, header) {
  const [, indent, words] = /^(\s*)--- @(.*)$/.exec(line) ?? [];
  if (words === undefined) return [line];
  const [, names, n] = /^bind (\w+(?:, \w+)*) of (\w+)$/.exec(words) ?? [];
  if (words === 'bind') return bindAll(header);
  if (words === 'request') return requestOf(header);
  if (names === undefined) throw new Error(`${file}: "${line.trim()}" is no directive`);
  const { cut, found } = split(file, header, names.split(', '));
  return [...(cut.length > 0 ? [locals(cut.map((name) => [name, placeOf(file, header, name, n)]))] : []), ...(found.length > 0 ? [search(file, header, found, n)] : [])].map((text) => indent + text);
}

/** Which of the names stand at a fixed place, and which have to be searched for. */
function split(file, header, names) {
  const isFound = (name) => header.ARGV.each?.fields?.some((field) => field.parts && isBehind(field, name)) ?? false;
  return { cut: names.filter((name) => !isFound(name)), found: names.filter(isFound) };
}

/** Whether a part stands behind the first one of no fixed width: its place is only known once those before it are read. */
function isBehind({ parts }, name) {
  return parts.findIndex((part) => part.name === name) >= parts.findIndex(({ kind }) => kind.width === undefined) && parts.some((part) => part.name === name && part.kind.width === undefined);
}

/** One pattern for these parts of a packed field, from its first part of no fixed width to the last that is wanted. */
function search(file, header, names, n) {
  const field = header.ARGV.each.fields.find(({ parts }) => parts?.some(({ name }) => name === names[0]));
  const places = names.map((name) => field.parts.findIndex((part) => part.name === name));
  if (places.some((place, i) => place < 0 || place < (places[i - 1] ?? 0))) throw new Error(`${file}: ${names.join(', ')} do not stand in this order in ${field.name}`);
  const first = field.parts.findIndex(({ kind }) => kind.width === undefined);
  const [, before] = fixedPlace(file, field, first - 1);
  const { layout, parts } = field;
  const pattern = layout.slice(layout.indexOf(`<${parts[first].name}>`), layout.indexOf(`<${parts[places.at(-1)].name}>`) + parts[places.at(-1)].name.length + 2);
  const captured = pattern.replace(/<(\w+)>/g, (_, part) => (names.includes(part) ? '(%S+)' : '%S+'));
  return `local ${names.join(', ')} = string.match(${elementOf(header, field, n)}, '^${captured}', ${before + 2})`;
}

function locals(pairs) {
  return `local ${pairs.map(([name]) => name).join(', ')} = ${pairs.map(([, value]) => value).join(', ')}`;
}

function bindAll(header) {
  const lines = [];
  for (const of of ['KEYS', 'ARGV']) {
    const { head, each } = header[of];
    const pairs = head.map(({ name, kind }, i) => [name, kind.read(`${of}[${i + 1}]`)]);
    if (each?.fields) pairs.push([tableOf(of), of]);
    else if (each) pairs.push([each.name, head.length === 0 ? of : `{ unpack(${of}, ${head.length + 1}) }`]);
    if (of === 'ARGV' && each?.fields) pairs.push(['count', countOf(head.length === 0 ? '#ARGV' : `(#ARGV - ${head.length})`, each.fields.length)]);
    if (pairs.length > 0) lines.push(locals(pairs));
  }
  return lines;
}

const countOf = (all, size) => (size === 1 ? all : `${all} / ${size}`);
const tableOf = (of) => (of === 'KEYS' ? 'keys' : 'args');

/** Where a field of the nth request stands: an element, or the part of one that has a fixed place in it. */
function placeOf(file, header, name, n) {
  for (const of of ['KEYS', 'ARGV']) {
    for (const field of header[of].each?.fields ?? []) {
      if (field.name === name) return elementOf(header, field, n);
      const part = field.parts?.findIndex((each) => each.name === name) ?? -1;
      if (part >= 0) return `string.sub(${elementOf(header, field, n)}, ${fixedPlace(file, field, part).join(', ')})`;
    }
    const list = header[of].each;
    if (list?.name === name && !list.fields) return `${name}[${n}]`;
  }
  throw new Error(`${file}: the header names no ${name} of each request`);
}

function elementOf(header, field, n) {
  const { head, each } = header[field.of];
  const size = each.fields.length;
  const shift = head.length + each.fields.indexOf(field) + 1 - size;
  const sum = shift === 0 ? '' : ` ${shift < 0 ? '-' : '+'} ${Math.abs(shift)}`;
  return `${tableOf(field.of)}[${size === 1 ? n : `${size} * ${n}`}${sum}]`;
}

function fixedPlace(file, { name, layout, parts }, wanted) {
  let from = 1;
  for (const [, before, part] of layout.matchAll(/([^<]*)<(\w+)>/g)) {
    const { kind } = parts.find((each) => each.name === part);
    if (kind.width === undefined) break;
    from += before.length;
    if (parts[wanted].name === part) return [from, from + kind.width - 1];
    from += kind.width;
  }
  throw new Error(`${file}: ${parts[wanted].name} has no fixed place in ${name}`);
}

function requestOf(header) {
  if (!header.ARGV.each) return [`local request = { ${[...header.KEYS.head, ...header.ARGV.head].map(({ name }) => `${name} = ${name}`).join(', ')} }`];
  const lines = ['local function requestOf(n)'];
  const entries = [];
  for (const field of [...(header.KEYS.each?.fields ?? []), ...header.ARGV.each.fields]) {
    const element = elementOf(header, field, 'n');
    if (field.parts === undefined) {
      entries.push(`${field.name} = ${field.kind.read(element)}`);
      continue;
    }
    const pattern = field.layout.replace(/<(\w+)>/g, (_, part) => (field.parts.find(({ name }) => name === part).kind.width === 1 ? '(.)' : '(%S+)'));
    lines.push(`  local ${field.parts.map(({ name }) => name).join(', ')} = string.match(${element}, '^${pattern}$')`);
    for (const { name, kind } of field.parts) entries.push(`${name} = ${kind.read(name)}`);
  }
  return [...lines, `  return { ${entries.join(', ')} }`, 'end'];
}

/** What has a name is bound by it: the script binds first, once, and names neither KEYS nor ARGV itself. */
export function checkBindings(file, lines, header, stripComment) {
  const binds = lines.filter((line) => line === '--- @bind').length;
  if (fieldsOf(header).length > 0 && (binds !== 1 || lines[0] !== '--- @bind')) throw new Error(`${file}: expected "--- @bind" behind the header, and nowhere else`);
  const counted = lines.map(stripComment).find((line) => /\b(KEYS|ARGV)\b/.test(line));
  if (counted !== undefined) throw new Error(`${file}: KEYS and ARGV are bound by their names, not in "${counted.trim()}"`);
}
