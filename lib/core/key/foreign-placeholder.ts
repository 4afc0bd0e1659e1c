/**
 * Finds in a key template what other notations write for a placeholder: `{0}`, `$0`, `${id}`, `%s`, `:id`. To us it is text,
 * and calls that were to have a lock each would share one.
 */
import type { TemplateSubject } from './key-template.js';

/** What nobody writes as text. */
const SURE = /\$\{([^{}<>]+)\}|#\{([^{}<>]+)\}|\{\{([^{}<>]+)\}\}|\{(\d[\w.]*)\}|\$(\d+(?:\.\w+)*)/g;
/** What may be text: the constant key of a method without parameters certainly means it as it stands. */
const LIKELY =
  /\{([A-Za-z_][\w.]*)\}|\$([A-Za-z_]\w*(?:\.\w+)*)|#(\d+|[A-Za-z_]\w*(?:\.\w+)+)|%([sdi])(?!\w)|::?(\d+)(?=:|$)|(?<=[/:]|^):([A-Za-z_]\w*)/g;

const PLACEHOLDERS: Readonly<Record<TemplateSubject, string>> = {
  arguments: 'a placeholder is <0> for the first argument, <0.id> for a property of it',
  request: 'a placeholder is a path into the request, such as <params.id>',
};

/**
 * Says what was probably meant by a template, as the rest of a sentence that begins with who has it; undefined when nothing
 * looks wrong. `parameters`: how many the method has, or as many as the request has parts.
 */
export function foreignPlaceholder(template: string, parameters: number, subject: TemplateSubject): string | undefined {
  const isConstant = !/<[^<]/.test(template.replaceAll('<<', ''));
  const sure = [...template.matchAll(SURE)];
  const likely = isConstant ? [...template.matchAll(LIKELY)].filter((match) => isWithin(match, parameters)) : [];
  const found = sure.length > 0 ? sure : likely;
  const [first] = found;
  if (first === undefined) return undefined;
  const text = `'${first[0]}' in its key '${template}' is text, the same for every call`;
  return `${text}. Probably '${replaced(template, found, subject)}' is meant: ${PLACEHOLDERS[subject]}. If the text is, give a function: () => '${template}'.`;
}

/** A number that is the position of no argument is a part of the key. */
function isWithin(match: RegExpMatchArray, parameters: number): boolean {
  const position = /^\d+/.exec(nameIn(match));
  return position === null ? parameters > 0 : Number(position[0]) < parameters;
}

function nameIn(match: RegExpMatchArray): string {
  return match.slice(1).find((group) => group !== undefined) ?? '';
}

/** The template with a placeholder of ours for each that was found. */
function replaced(template: string, found: readonly RegExpMatchArray[], subject: TemplateSubject): string {
  const known: string[] = [];
  let result = '';
  let end = 0;
  for (const match of found) {
    const at = match.index ?? 0;
    // The colon before a position may be the separator as well as a sign.
    const separator = at > 0 && /^:+\d/.test(match[0]) ? ':' : '';
    const path = subject === 'arguments' ? argumentPath(nameIn(match), known) : requestPath(nameIn(match));
    result += `${template.slice(end, at)}${separator}<${path}>`;
    end = at + match[0].length;
  }
  return result + template.slice(end);
}

/** Names stand for arguments in the order in which they first occur. */
function argumentPath(name: string, known: string[]): string {
  if (/^\d/.test(name)) return name;
  const [first = '', ...inner] = /^[\w.]+$/.test(name) ? name.split('.') : [name];
  if (!known.includes(first)) known.push(first);
  return [known.indexOf(first), ...inner].join('.');
}

function requestPath(name: string): string {
  if (!/^[A-Za-z_][\w.]*$/.test(name) || name.length === 1) return 'params.id';
  return name.includes('.') ? name : `params.${name}`;
}
