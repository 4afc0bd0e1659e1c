// What a field of a request can be: its type in TypeScript, how it is written into an argument, and how Lua reads it.

const asIs = (value) => value;
const KINDS = {
  text: { type: 'string', write: asIs, read: asIs },
  number: { type: 'number', write: asIs, read: (text) => `tonumber(${text})` },
  /** A number that Lua passes on as it came. */
  digits: { type: 'number', write: asIs, read: asIs },
  'text or number': { type: 'ScriptArgument', write: asIs, read: asIs },
  'number or nothing': { type: 'number | undefined', write: (value) => `${value} ?? ''`, read: (text) => `tonumber(${text})` },
  'text or -': { type: 'string | undefined', write: (value) => `${value} ?? '-'`, read: asIs },
  /** Any text, written without spaces. */
  'encoded or -': { type: 'string | undefined', write: (value) => `${value} === undefined ? '-' : toField(${value})`, read: asIs },
  mode: { type: 'LockMode', write: (value) => `${value} === 'write' ? 'w' : 'r'`, read: asIs, width: 1 },
  /** How a lock is held on one Redis: its first letter says it. */
  hold: { type: "LockMode | 'permit'", write: (value) => `${value}[0]`, read: asIs, width: 1 },
  /** What a request gets from the id that it replaces, or from its caller: the first letter says it. */
  taking: { type: "'nothing' | 'permit' | 'hold' | 'beside' | 'ticket' | 'floor'", write: (value) => `${value}[0]`, read: asIs, width: 1 },
  flag: { type: 'boolean', write: (value) => `${value} ? 1 : 0`, read: (text) => `${text} == '1'`, width: 1 },
};

/** Of a fixed width, so that it stands at the same place and can be compared as text. */
const wide = (width) => ({ ...KINDS.number, write: (value) => `String(${value}).padStart(${width}, '0')`, width });

/** A number that Lua passes on as it came: what the caller asks for under another name, and a constant of the scripts more. */
const sum = (asked, constant) => ({ ...KINDS.digits, asked, write: (value) => `${value} + ${constant}` });

export function kindOf(file, line, name = 'text') {
  const [, asked, constant] = /^(\w+) \+ ([A-Z_]+)$/.exec(name) ?? [];
  if (asked !== undefined) return sum(asked, constant);
  const [, digits] = /^number of (\d+) digits$/.exec(name) ?? [];
  const [, letters] = /^text of (\d+) letters$/.exec(name) ?? [];
  const kind = digits !== undefined ? wide(Number(digits)) : letters !== undefined ? { ...KINDS.text, width: Number(letters) } : KINDS[name];
  if (kind === undefined) throw new Error(`${file}: "${name}" is none of ${Object.keys(KINDS).join(', ')}, number of n digits, text of n letters, name + CONSTANT, in "${line}"`);
  return kind;
}
