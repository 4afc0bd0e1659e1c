// The TypeScript that builds a request by the names of its header: types of what a script is given, and a function that puts
// each value where the script looks for it.
import { isForMany } from './header.mjs';
import { camel, capital, spoken } from './names.mjs';

const pascal = (name) => capital(camel(name));

/** `recallCall`; for a script that takes any number of requests `addAcquire` and `acquireCallOf` as well, and `acquireText` if each is one text. */
export function requestsOf(name, header) {
  const many = isForMany(header);
  const sides = [
    { suffix: 'Keys', variable: 'on', list: header.KEYS, says: 'The Redis keys of' },
    { suffix: 'Args', variable: 'request', list: header.ARGV, says: 'What is said in' },
  ].map((side) => ({ ...side, members: many ? side.list.each.fields : [...side.list.head, ...(side.list.each ? [side.list.each] : [])] }));
  const used = sides.filter(({ members }) => members.length > 0);
  const types = used.map((side) => typeOf(`${pascal(name)}${side.suffix}`, `${side.says} ${many ? 'one request to' : 'a call of'} ${name}.lua`, side.members));
  const [keys, args] = sides.map(({ members, variable }) => members.map((member) => element(member, variable)).join(', '));
  const isText = many && sides[1].members.length === 1;
  return [...types, ...(isText ? [writer(name, args)] : []), many ? adder(name, used, keys, isText ? `${camel(name)}Text(request)` : args) : caller(name, parametersOf(name, used), keys, args)].join('\n');
}

function parametersOf(name, used) {
  return used.map(({ suffix, variable }) => `${variable}: ${pascal(name)}${suffix}`).join(', ');
}

/** What the caller calls it. */
const askedName = ({ name, kind }) => kind?.asked ?? name;

function typeOf(name, sentence, members) {
  const lines = members.flatMap((member) => member.parts ?? [member]).map((member) => {
    const optional = member.kind?.type.endsWith('| undefined') ? '?' : '';
    return `  /** ${sentenceOf(member)}. */\n  readonly ${askedName(member)}${optional}: ${memberType(member)};\n`;
  });
  return `/** ${sentence}. */\nexport interface ${name} {\n${lines.join('')}}\n`;
}

/** The meaning as a sentence. `of the holder` is what the header says of an id, and `for each lock:` what it says of fields below. */
function sentenceOf(member) {
  const meaning = member.meaning.replace(/:$/, '');
  if (meaning.startsWith('of ')) return `The ${spoken(askedName(member))} ${meaning}`;
  return member.fields ? `One ${meaning}` : capital(meaning);
}

function memberType({ kind, isList, fields }) {
  if (fields) return `readonly { ${fields.map((field) => `readonly ${field.name}: ${field.kind.type}`).join('; ')} }[]`;
  return isList ? `readonly ${kind.type}[]` : kind.type;
}

/** For a script that is told of each request in one text. */
function writer(name, text) {
  return `/** What is said in one request to ${name}.lua. */
export function ${camel(name)}Text(request: ${pascal(name)}Args): string {
  return ${text};
}
`;
}

function adder(name, used, keys, args) {
  const parameters = parametersOf(name, used);
  return `/** Puts one more request into a call of ${name}.lua. */
export function add${pascal(name)}(keys: ScriptArgument[], args: ScriptArgument[], ${parameters}): void {
  keys.push(${keys});
  args.push(${args});
}

/** A call of ${name}.lua for one request. */
export function ${camel(name)}Call(${parameters}): BuiltCall {
  return ${camel(name)}CallOf([{ ...on, ...request }]);
}

/** A call of ${name}.lua for many requests. */
export function ${camel(name)}CallOf(requests: readonly (${used.map(({ suffix }) => `${pascal(name)}${suffix}`).join(' & ')})[]): BuiltCall {
  const keys: string[] = [];
  const args: ScriptArgument[] = [];
  for (const each of requests) add${pascal(name)}(keys, args, ${used.map(() => 'each').join(', ')});
  return { script: ${camel(name)}, keys, args };
}
`;
}

function caller(name, parameters, keys, args) {
  return `export function ${camel(name)}Call(${parameters}): BuiltCall {
  return { script: ${camel(name)}, keys: [${keys}], args: [${args}] };
}
`;
}

function element(member, from) {
  if (member.fields) return `...${from}.${member.name}.flatMap((each) => [${member.fields.map((field) => written(field, 'each')).join(', ')}])`;
  return member.isList ? `...${from}.${member.name}` : written(member, from);
}

/** A packed field is one text in its layout, made of its words in one step: a template makes a text more for each of its gaps. */
function written(field, from) {
  const { kind, layout, parts } = field;
  if (parts === undefined) return kind.write(`${from}.${askedName(field)}`);
  const partOf = (part) => written(parts.find((each) => each.name === part), from);
  const words = layout.split(' ').map((word) => {
    const [, whole] = /^<(\w+)>$/.exec(word) ?? [];
    return whole === undefined ? `\`${word.replace(/<(\w+)>/g, (_, part) => `\${${partOf(part)}}`)}\`` : partOf(whole);
  });
  return `[${words.join(', ')}].join(' ')`;
}
