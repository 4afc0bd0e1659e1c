/**
 * Finds placeholders of other notations in a key template: `{0}`, `$0`, `${id}`, `%s`, `:id`. Here they are text, so that calls
 * which should have a lock each would all share one.
 */
import type { TemplateSubject } from './key-template.js';

/** Placeholders of other notations that nobody writes as text. */
const SURE = /\$\{([^{}<>]+)\}|#\{([^{}<>]+)\}|\{\{([^{}<>]+)\}\}|\{(\d[\w.]*)\}|\$(\d+(?:\.\w+)*)/g;
/** What looks like a placeholder but may be text. It only counts in a template without placeholders of ours (see {@link isWithin}). */
const LIKELY =
  /\{([A-Za-z_][\w.]*)\}|\$([A-Za-z_]\w*(?:\.\w+)*)|#(\d+|[A-Za-z_]\w*(?:\.\w+)+)|%([sdi])(?!\w)|::?(\d+)(?=:|$)|(?<=[/:]|^):([A-Za-z_]\w*)/g;

const PLACEHOLDERS: Readonly<Record<TemplateSubject, string>> = {
  arguments: 'a placeholder is <0> for the first argument, <0.id> for a property of it',
  request: 'a placeholder is a path into the request, such as <params.id>',
};

/**
 * Says what was probably meant by a template with a placeholder of another notation, as the end of a sentence that begins with the
 * method or route; undefined when the template has none. `parameters`: how many parameters the method has.
 */
export function foreignPlaceholder(template: string, parameters: number, subject: TemplateSubject): string | undefined {
  const isConstant = !/<[^<]/.test(template.replaceAll('<<', ''));
  const sure = [...template.matchAll(SURE)];
  const likely = isConstant ? [...template.matchAll(LIKELY)].filter((match) => isWithin(match, parameters)) : [];
  const found = sure.length > 0 ? sure : likely;
  const [first] = found;
  if (first === undefined) return undefined;
  const text = `'${first[0]}' in its key '${template}' is text, the same for every call`;
  return `${text}. Probably '${replaced(template, found, subject)}' is meant: ${PLACEHOLDERS[subject]}. If the text itself is meant, give a function: () => '${template}'.`;
}

/** Whether the match can mean an argument. A number that is the position of none is text, and so is a name if there are no parameters. */
function isWithin(match: RegExpExecArray, parameters: number): boolean {
  const position = /^\d+/.exec(nameIn(match));
  return position === null ? parameters > 0 : Number(position[0]) < parameters;
}

/** The name or position in the placeholder. Of the groups of both patterns only one is filled. */
function nameIn(match: RegExpExecArray): string {
  return match.slice(1).join('');
}

/** The template with each placeholder that was found replaced by one of ours, such as `<0>`. */
function replaced(template: string, found: readonly RegExpExecArray[], subject: TemplateSubject): string {
  const known: string[] = [];
  let result = '';
  let end = 0;
  for (const match of found) {
    const at = match.index;
    // In 'order:0' the colon is part of the match, but it is the separator too, so it stays in front of the placeholder.
    const separator = at > 0 && /^:+\d/.test(match[0]) ? ':' : '';
    const path = subject === 'arguments' ? argumentPath(nameIn(match), known) : requestPath(nameIn(match));
    result += `${template.slice(end, at)}${separator}<${path}>`;
    end = at + match[0].length;
  }
  return result + template.slice(end);
}

/** The path for a position or a name. Names are taken for the arguments in the order in which they first occur. */
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
