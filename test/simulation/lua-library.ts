/** What scripts use of Lua's own functions. Whatever else a script asks for is refused when it is compiled. */
import { bytesOf, LuaTable, numberIn, operations, ServerError, textOf, wholeOf, type LuaFunction, type LuaValue } from './lua-values.js';

const { numberOf, stringOf, tableOf } = operations;
const CLASSES: Readonly<Record<string, string>> = { d: '0-9', s: ' \\t-\\r', w: '0-9A-Za-z', a: 'A-Za-z', x: '0-9A-Fa-f' };
const NOTHING: readonly LuaValue[] = [undefined];

export const library: Readonly<Record<string, LuaFunction | number>> = {
  'math.huge': Infinity,
  'math.floor': (number) => [Math.floor(numberOf(number))],
  'math.max': (...numbers) => [Math.max(...numbers.map(numberOf))],
  'math.min': (...numbers) => [Math.min(...numbers.map(numberOf))],
  'string.sub': (text, from, to = -1) => [slice(stringOf(text), numberOf(from), numberOf(to))],
  'string.format': format,
  'string.find': (text, wanted, from = 1, plain = undefined) => {
    if (plain !== true) throw new ServerError('ERR string.find: patterns are not known here');
    const at = stringOf(text).indexOf(stringOf(wanted), numberOf(from) - 1);
    return at < 0 ? NOTHING : [at + 1, at + stringOf(wanted).length];
  },
  'string.match': (text, pattern, from = 1) => {
    const found = regexOf(stringOf(pattern)).exec(slice(stringOf(text), numberOf(from), -1));
    return found === null ? NOTHING : captured(found);
  },
  'string.gmatch': (text, pattern) => {
    const all = stringOf(text).matchAll(new RegExp(regexOf(stringOf(pattern)), 'g'));
    return [
      () => {
        const { done, value } = all.next();
        return done === true ? NOTHING : captured(value);
      },
    ];
  },
  'string.gsub': (text, pattern, replacement) => {
    let count = 0;
    const replaced = stringOf(text).replace(new RegExp(regexOf(stringOf(pattern)), 'g'), () => (count++, stringOf(replacement)));
    return [replaced, count];
  },
  'table.concat': (table, separator = '') => [tableOf(table).list.map(stringOf).join(stringOf(separator))],
  'table.insert': (table, at, value) => {
    tableOf(table).list.splice(numberOf(at) - 1, 0, value);
    return [];
  },
  'table.remove': (table, at) => {
    const { list } = tableOf(table);
    return [at === undefined ? list.pop() : list.splice(numberOf(at) - 1, 1)[0]];
  },
  tonumber: (value) => [typeof value === 'string' ? numberIn(value) : typeof value === 'number' ? value : undefined],
  error: (message) => {
    throw new ServerError(textOf(stringOf(message)));
  },
  pcall: (run, ...args) => {
    try {
      return [true, ...operations.functionOf(run)(...args)];
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return [false, bytesOf(error.message)];
    }
  },
  type: (value) => [value === undefined ? 'nil' : value instanceof LuaTable ? 'table' : typeof value],
  unpack: (table, from = 1, to = tableOf(table).list.length) => {
    const values: LuaValue[] = [];
    for (let at = numberOf(from); at <= numberOf(to); at++) values.push(tableOf(table).get(at));
    return values;
  },
  next: (table, after) => {
    if (after !== undefined) throw new ServerError('ERR next: only the first is known here');
    const { list, fields } = tableOf(table);
    if (list.length > 0) return [1, list[0]];
    for (const entry of fields) return entry;
    return NOTHING;
  },
  ipairs: (table) => [following, tableOf(table), 0],
  pairs: (table) => {
    const { list, fields } = tableOf(table);
    const entries = [...list.map((value, at): [LuaValue, LuaValue] => [at + 1, value]), ...fields];
    let at = 0;
    return [() => entries[at++] ?? NOTHING];
  },
};

const following: LuaFunction = (table, after) => {
  const at = numberOf(after) + 1;
  const value = tableOf(table).get(at);
  return value === undefined ? NOTHING : [at, value];
};

/** From the first to the last byte that is asked for, counted from 1, or from the end when it is negative. */
function slice(text: string, from: number, to: number): string {
  const first = from < 0 ? Math.max(text.length + from + 1, 1) : Math.max(from, 1);
  const last = to < 0 ? text.length + to + 1 : to;
  return last < first ? '' : text.slice(first - 1, last);
}

function captured(found: readonly (string | undefined)[]): readonly LuaValue[] {
  return found.length === 1 ? found : found.slice(1);
}

const regexes = new Map<string, RegExp>();

function regexOf(pattern: string): RegExp {
  const known = regexes.get(pattern);
  if (known !== undefined) return known;
  const regex = new RegExp(translated(pattern), 's');
  regexes.set(pattern, regex);
  return regex;
}

/** A Lua pattern as a regular expression: the escapes differ, and `-` is the lazy star. */
function translated(pattern: string): string {
  let regex = '';
  let inSet = false;
  for (let at = 0; at < pattern.length; at++) {
    const sign = pattern[at] as string;
    if (sign === '%') regex += escaped(pattern[++at] ?? '', inSet);
    else if (inSet) regex += sign;
    else if (sign === '-') regex += '*?';
    else regex += '\\{}|/'.includes(sign) ? `\\${sign}` : sign;
    if (sign === '[' || sign === ']') inSet = sign === '[';
  }
  return regex;
}

function escaped(sign: string, inSet: boolean): string {
  const set = CLASSES[sign.toLowerCase()];
  if (set === undefined && /\w/.test(sign)) throw new ServerError(`ERR patterns: %${sign} is not known here`);
  if (set === undefined) return `\\${sign}`;
  const negative = sign < 'a';
  if (inSet && negative) throw new ServerError(`ERR patterns: %${sign} in a set is not known here`);
  return inSet ? set : `[${negative ? '^' : ''}${set}]`;
}

const formats = new Map<string, readonly string[]>();

function format(text: LuaValue, ...values: readonly LuaValue[]): readonly LuaValue[] {
  const known = stringOf(text);
  // What stands between conversions at even places, conversions at odd ones.
  const parts = formats.get(known) ?? known.split(/%(013\.0f|\.0f|.)/);
  formats.set(known, parts);
  let formatted = parts[0] as string;
  for (let at = 1; at < parts.length; at += 2) formatted += converted(parts[at] as string, values[(at - 1) / 2]) + (parts[at + 1] as string);
  return [formatted];
}

function converted(conversion: string, value: LuaValue): string {
  switch (conversion) {
    case 's':
      return stringOf(value);
    case 'd':
      return wholeOf(Math.trunc(numberOf(value)));
    case '.0f':
      return wholeOf(numberOf(value));
    case '013.0f':
      return wholeOf(numberOf(value)).padStart(13, '0');
    default:
      throw new ServerError(`ERR string.format: %${conversion} is not known here`);
  }
}
