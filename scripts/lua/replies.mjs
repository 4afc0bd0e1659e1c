// The TypeScript that reads a reply by the names of its header:
//
//     --- RETURNS 1 granted: now, fence, write flag  meaning    an answer that begins with its code
//     --- RETURNS all head: now, runId text                     what stands once, at the beginning of a list
//     --- RETURNS each holder: id text, fence                   behind it: a list with an answer for each, read as `holders`
//     --- RETURNS each 1 granted: fence  meaning                the same for answers that begin with their codes, read as `answers`
//     --- RETURNS each 0 gone: none  meaning                    one without fields
//     --- RETURNS each refused: words text  meaning             one whose code is its name (refusal.lua)
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
const CODE_ALONE = /^--- RETURNS (\d+) ([a-z]+)(?:[ ,].*)?$/;
/** What the server refused for one request of several, and the list that these make: no answer of a script to a request. */
const BESIDES = /^--- RETURNS (?:refused|a list) /;

export function repliesOf(file, name, lines) {
  const returns = lines.filter((line) => line.startsWith('--- RETURNS ') && !BESIDES.test(line));
  if (returns.every((line) => CODE_ALONE.test(line))) return wordReader(name, returns.map((line) => CODE_ALONE.exec(line)));
  const found = lines.map((line) => ANSWER.exec(line)).filter((match) => match !== null).map(([line, label, kind, list, meaning]) => ({
    label, kind, meaning, code: kind === 'refused' ? `'refused'` : /\d+/.exec(label)?.[0], fields: (list === 'none' ? [] : list.split(', ')).map((item) => fieldOf(file, line, item)),
  }));
  const head = found.find(({ label }) => label === 'all');
  const coded = found.filter(({ code }) => code !== undefined);
  if (head === undefined) return coded.length === 0 ? '' : codedReader(capital(camel(name)), name, coded, 'reply: unknown', 'listOf(reply)');
  const records = found.filter(({ label, code }) => label === 'each' && code === undefined);
  const Name = capital(camel(name));
  return [
    ...(coded.length > 0 ? [codedReader(`${Name}Answer`, name, coded, 'list: ReplyItems')] : []), ...records.map((each) => recordReader(name, each)),
    headReader(name, head, [...(coded.length > 0 ? [{ kind: 'answer', plural: 'answers', Type: `${Name}Answer` }] : []), ...records.map(({ kind }) => ({ kind, plural: `${kind}s`, Type: `${Name}${capital(camel(kind))}` }))]),
  ].join('\n');
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
const place = (n) => `list[${n}]`;

function codedReader(Name, name, answers, parameter, list) {
  const begin = list === undefined ? '' : `  const list = ${list};\n`;
  return `/** What ${name}.lua answers. */
export type ${Name.replace(/Answer$/, '')}${Name.endsWith('Answer') ? 'Answer' : 'Reply'} =
${answers.map(({ kind, fields, meaning }) => `${meaning ? `  /** ${sentenceOf(meaning, fields)}. */\n` : ''}  | { ${[`readonly kind: '${kind}'`, ...fields.map(member)].join('; ')} }`).join('\n')};

/** Reads an answer of ${name}.lua, which begins with its code. @throws Error */
export function read${Name}(${parameter}): ${Name.endsWith('Answer') ? Name : `${Name}Reply`} {
${begin}  switch (list[0]) {
${answers.map(({ code, kind, fields }) => `    case ${code}:\n      return { ${[`kind: '${kind}'`, ...fields.map((field, n) => `${field.name}: ${field.read(place(n + 1))}`)].join(', ')} };`).join('\n')}
    default:
      throw new UnexpectedReplyError(list);
  }
}
`;
}

function wordReader(name, answers) {
  return `/** Reads the answer of ${name}.lua, which is a code alone. @throws Error, also with the server's words for what it refused */
export function read${capital(camel(name))}(code: unknown): ${answers.map(([, , word]) => `'${word}'`).join(' | ')} {
  switch (code) {
${answers.map(([, code, word]) => `    case ${code}:\n      return '${word}';`).join('\n')}
    default:
      throw new UnexpectedReplyError(listOf(code));
  }
}
`;
}

function recordReader(name, { kind, fields, meaning }) {
  const Name = `${capital(camel(name))}${capital(camel(kind))}`;
  return `/** ${meaning ? sentenceOf(meaning, fields) : `What ${name}.lua answers repeatedly`}. */
export interface ${Name} {
${fields.map((field) => `  ${member(field)};\n`).join('')}}

function read${Name}(list: ReplyItems): ${Name} {
  return { ${fields.map((field, n) => `${field.name}: ${field.read(place(n))}`).join(', ')} };
}
`;
}

/** Reads a whole reply: its head, and behind it a list for each kind of answer. */
function headReader(name, { fields, meaning }, lists) {
  const Name = capital(camel(name));
  return `/** ${meaning ? sentenceOf(meaning, fields) : `What ${name}.lua answers`}. */
export interface ${Name}Reply {
${fields.map((field) => `  ${member(field)};\n`).join('')}${lists.map(({ plural, Type }) => `  readonly ${plural}: readonly ${Type}[];\n`).join('')}}

/** Reads the reply of ${name}.lua. @throws Error */
export function read${Name}(reply: unknown): ${Name}Reply {
  const list = listOf(reply);
  return { ${[...fields.map((field, n) => `${field.name}: ${field.read(place(n))}`), ...lists.map(({ plural, Type }, n) => `${plural}: eachOf(list[${fields.length + n}], read${Type})`)].join(', ')} };
}
`;
}
