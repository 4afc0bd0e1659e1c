/**
 * Values as a script in Redis sees them: every number is a double, a string is a row of bytes (here one character each), a
 * list is a table. Whole numbers print without a point, others with 14 digits and no more.
 */
export type LuaValue = undefined | boolean | number | string | LuaTable | LuaFunction;
/** Answers any number of values. */
export type LuaFunction = (...args: readonly LuaValue[]) => readonly LuaValue[];

/** An error that a command or a script ended with, in the server's words. */
export class ServerError extends Error {
  override readonly name = 'ReplyError';
}

/** A Lua table. What stands at 1, 2, 3 … without a gap is kept as a list, so that its length is known. */
export class LuaTable {
  readonly fields = new Map<LuaValue, LuaValue>();

  constructor(readonly list: LuaValue[] = []) {
    const gap = list.indexOf(undefined);
    if (gap >= 0) this.moveOut(gap);
  }

  get(key: LuaValue): LuaValue {
    if (typeof key === 'number' && key >= 1 && key <= this.list.length) return this.list[key - 1];
    return this.fields.get(key);
  }

  set(key: LuaValue, value: LuaValue): void {
    const { list, fields } = this;
    if (typeof key === 'number' && Number.isInteger(key) && key >= 1 && key <= list.length + 1) return this.setItem(key, value);
    if (key === undefined) throw new ServerError('ERR table index is nil');
    if (value === undefined) fields.delete(key);
    else fields.set(key, value);
  }

  private setItem(key: number, value: LuaValue): void {
    const { list, fields } = this;
    if (value === undefined) return this.moveOut(key - 1);
    list[key - 1] = value;
    while (fields.size > 0 && fields.has(list.length + 1)) {
      const next = list.length + 1;
      list.push(fields.get(next));
      fields.delete(next);
    }
  }

  /** The list ends before a gap; what stands behind it stays in its place. */
  private moveOut(gap: number): void {
    const behind = this.list.splice(gap).slice(1);
    behind.forEach((value, at) => value !== undefined && this.fields.set(gap + 2 + at, value));
  }
}

const NUMERAL = /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|0x[\da-f]+)\s*$/i;

/** The number that a text stands for. */
export function numberIn(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text);
  const numeral = NUMERAL.exec(text)?.[1];
  return numeral === undefined ? undefined : Number(numeral);
}

/** Rounds as C does: the half to the even. */
export function wholeOf(number: number): string {
  const floor = Math.floor(number);
  const rounded = number - floor === 0.5 ? floor + (floor % 2 === 0 ? 0 : 1) : Math.round(number);
  return Math.abs(rounded) < 1e21 ? String(rounded) : String(BigInt(rounded));
}

/** A number as `%.14g` (what Lua prints) and `%.17g` (what commands get) write it. */
export function printed(number: number, digits: number): string {
  if (Number.isInteger(number) && Math.abs(number) < 10 ** Math.min(digits, 15)) return String(number);
  const [mantissa = '', exponent = '0'] = number.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  const trimmed = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (power >= -4 && power < digits) return trimmed(number.toFixed(Math.max(0, digits - 1 - power)));
  return `${trimmed(mantissa)}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

/** The bytes of a text, a character each. Most is plain ASCII, which stays as it is. */
export function bytesOf(text: string): string {
  return /^[\0-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1');
}

export function textOf(bytes: string): string {
  return /^[\0-\x7f]*$/.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8');
}

function kindOf(value: LuaValue): string {
  if (value instanceof LuaTable) return 'table';
  return value === undefined ? 'nil' : typeof value;
}

function numberOf(value: LuaValue): number {
  if (typeof value === 'number') return value;
  const number = typeof value === 'string' ? numberIn(value) : undefined;
  if (number === undefined) throw new ServerError(`ERR attempt to perform arithmetic on a ${kindOf(value)} value`);
  return number;
}

function stringOf(value: LuaValue): string {
  if (typeof value === 'string') return value;
  if (typeof value !== 'number') throw new ServerError(`ERR attempt to concatenate a ${kindOf(value)} value`);
  return printed(value, 14);
}

function isLess(one: LuaValue, other: LuaValue): boolean {
  if (typeof one === 'number' && typeof other === 'number') return one < other;
  if (typeof one === 'string' && typeof other === 'string') return one < other;
  throw new ServerError(`ERR attempt to compare ${kindOf(one)} with ${kindOf(other)}`);
}

/** What the compiled text of a script calls. */
export const operations = {
  LuaTable,
  numberOf,
  stringOf,
  isLess,
  isTrue: (value: LuaValue): boolean => value !== undefined && value !== false,
  isAtMost: (one: LuaValue, other: LuaValue): boolean => one === other || isLess(one, other),
  modulo: (one: number, other: number): number => one - Math.floor(one / other) * other,
  lengthOf(value: LuaValue): number {
    if (value instanceof LuaTable) return value.list.length;
    if (typeof value === 'string') return value.length;
    throw new ServerError(`ERR attempt to get length of a ${kindOf(value)} value`);
  },
  tableOf(value: LuaValue): LuaTable {
    if (value instanceof LuaTable) return value;
    throw new ServerError(`ERR attempt to index a ${kindOf(value)} value`);
  },
  functionOf(value: LuaValue): LuaFunction {
    if (typeof value === 'function') return value;
    throw new ServerError(`ERR attempt to call a ${kindOf(value)} value`);
  },
  missing(name: string): never {
    throw new ServerError(`ERR Script attempted to access nonexistent global variable '${name}'`);
  },
  newTable(list: LuaValue[], fields: readonly LuaValue[]): LuaTable {
    const table = new LuaTable(list);
    for (let at = 0; at < fields.length; at += 2) table.set(fields[at], fields[at + 1]);
    return table;
  },
};
