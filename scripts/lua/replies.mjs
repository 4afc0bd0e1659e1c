// The TypeScript that reads a reply by the names of its header:
//
//     --- RETURNS 1 granted: now, fence, write flag  meaning    an answer that begins with its code
//     --- RETURNS each 1 granted: fence  meaning                one of several such answers in a reply, all of one size
//     --- RETURNS each 0 gone: none  meaning                    the same without fields
//     --- RETURNS all head: now, runId text                     what stands once, at the beginning
//     --- RETURNS each holder: id text, fence                   what is repeated behind it; a function reads all of them
//     --- RETURNS 1 raised  meaning                             an answer that is its code alone, where all are
//
// Other lines say in words what is not a list.
import { camel, capital } from './names.mjs';

const KINDS = {
  number: ['number', (item) => `Number(${item})`],
  'number or text': ['number | string', (item) => `${item} ?? ''`],
  flag: ['boolean', (item) => `Number(${item}) === 1`],
  text: ['string', (item) => `String(${item})`],
  'text or nothing': ['string | undefined', (item) => `${item} === undefined ? undefined : String(${item})`],
  /** What was sent as `encoded or -`. */
  encoded: ['string | undefined', (item) => `fromField(${item})`],
  /** 1 for write, 0 for read. */
  mode: ['LockMode', (item) => `Number(${item}) === 1 ? 'write' : 'read'`],
  'w or r': ['LockMode', (item) => `${item} === 'w' ? 'write' : 'read'`],
};
const ANSWER = /^--- RETURNS (all|each|(?:each )?\d+) ([a-z][a-z ]*): (.*?)(?: {2,}(\S.*))?$/;
const CODE_ALONE = /^--- RETURNS (\d+) ([a-z]+)(?: {2}.*)?$/;

export function repliesOf(file, name, lines) {
  const returns = lines.filter((line) => line.startsWith('--- RETURNS '));
  if (returns.every((line) => CODE_ALONE.test(line))) return wordReader(name, returns.map((line) => CODE_ALONE.exec(line)));
  const found = lines.map((line) => ANSWER.exec(line)).filter((match) => match !== null).map(([line, label, kind, list, meaning]) => ({
    label, kind, meaning, code: /\d+/.exec(label)?.[0], fields: (list === 'none' ? [] : list.split(', ')).map((item) => fieldOf(file, line, item)),
  }));
  const coded = found.filter(({ code }) => code !== undefined);
  return [...(coded.length > 0 ? [codedReader(name, coded)] : []), ...found.filter(({ code }) => code === undefined).map((each) => recordReader(name, each)), ...listReaders(name, found)].join('\n');
}

/** For a reply with a head and one repeated answer behind it. */
function listReaders(name, found) {
  const heads = found.filter(({ label }) => label === 'all');
  const [kind, ...others] = new Set(found.filter(({ label }) => label.startsWith('each')).map(({ label, kind: record }) => (label === 'each' ? capital(camel(record)) : '')));
  if (heads.length !== 1 || kind === undefined || others.length > 0) return [];
  const Name = `${capital(camel(name))}${kind}`;
  const [size, head] = [`${camel(name)}${kind}Size`, `${camel(name)}HeadSize`];
  return [`/** Reads the answers of ${name}.lua behind its head: so many, or all. @throws Error */
export function each${Name}(reply: ReplyItems, count = (reply.length - ${head}) / ${size}): ${Name}${kind === '' ? 'Reply' : ''}[] {
  return Array.from({ length: count }, (_, n) => read${Name}(reply, ${head} + ${size} * n));
}
`];
}

function fieldOf(file, line, item) {
  const [, name, kind = 'number'] = /^(\w+)(?: (.+))?$/.exec(item) ?? [];
  if (!(kind in KINDS) || name === undefined) throw new Error(`${file}: "${item}" is no field of a reply, in "${line}"`);
  return { name, type: KINDS[kind][0], read: KINDS[kind][1] };
}

/** The meaning as a sentence. The name of a field at its beginning stays as it is, and what begins with `until` is said of `leftMs`. */
function sentenceOf(meaning, fields) {
  const isField = (word) => fields.some(({ name }) => name === word);
  if (meaning.startsWith('until ') && isField('leftMs')) return `leftMs is the time ${meaning}`;
  return isField(/^\w+/.exec(meaning)?.[0]) ? meaning : capital(meaning);
}

const member = ({ name, type }) => `readonly ${name}: ${type}`;
const place = (n) => (n === 0 ? 'reply[at]' : `reply[at + ${n}]`);

function codedReader(name, answers) {
  const Name = capital(camel(name));
  const size = `/** How many items each answer of ${name}.lua has. */\nexport const ${camel(name)}Size = ${1 + Math.max(...answers.map(({ fields }) => fields.length))};\n\n`;
  return `/** What ${name}.lua answers. */
export type ${Name}Reply =
${answers.map(({ kind, fields, meaning }) => `${meaning ? `  /** ${sentenceOf(meaning, fields)}. */\n` : ''}  | { ${[`readonly kind: '${kind}'`, ...fields.map(member)].join('; ')} }`).join('\n')};

${answers.some(({ label }) => label.startsWith('each')) ? size : ''}/** Reads the answer of ${name}.lua that begins with its code at \`at\`. @throws Error */
export function read${Name}(reply: ReplyItems, at = 0, code = Number(reply[at])): ${Name}Reply {
  switch (code) {
${answers.map(({ code, kind, fields }) => `    case ${code}:\n      return { ${[`kind: '${kind}'`, ...fields.map((field, n) => `${field.name}: ${field.read(place(n + 1))}`)].join(', ')} };`).join('\n')}
    default:
      throw unexpected(reply);
  }
}
`;
}

function wordReader(name, answers) {
  return `/** Reads the answer of ${name}.lua, which is a code alone. @throws Error */
export function read${capital(camel(name))}(code: unknown): ${answers.map(([, , word]) => `'${word}'`).join(' | ')} {
  switch (code) {
${answers.map(([, code, word]) => `    case ${code}:\n      return '${word}';`).join('\n')}
    default:
      throw unexpected(code);
  }
}
`;
}

function recordReader(name, { label, kind, fields, meaning }) {
  const Name = `${capital(camel(name))}${capital(camel(kind.replaceAll(' ', '-')))}`;
  return `/** ${meaning ? sentenceOf(meaning, fields) : `What ${name}.lua answers ${label === 'all' ? 'first' : 'repeatedly'}`}. */
export interface ${Name} {
${fields.map((field) => `  ${member(field)};\n`).join('')}}

export const ${Name[0].toLowerCase()}${Name.slice(1)}Size = ${fields.length};

export function read${Name}(reply: ReplyItems, at = 0): ${Name} {
  return { ${fields.map((field, n) => `${field.name}: ${field.read(place(n))}`).join(', ')} };
}
`;
}
