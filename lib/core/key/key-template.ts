/**
 * Parses key templates such as `order:<0.customer.id>` when the class is defined, and renders them at each call.
 *
 *   - A template with one placeholder makes the string that one would write by hand.
 *   - In one with several, values are escaped as far as different values need different keys (see lock-key.ts).
 */
import { LockKeyError } from '../port/errors.js';
import { checkLength, LONGEST_KEY_BYTES } from './check-key.js';
import { keyFrame, valueError, type Malformed } from './lock-key.js';

/** What a template is rendered from. Its placeholders start with the position of an argument, or with a property of a request. */
export type TemplateSubject = 'arguments' | 'request';

interface Parts {
  readonly literals: readonly string[];
  readonly paths: readonly string[];
}

/**
 * Parses a template, and gives the function that renders a key from the arguments of a call, or from a request; that throws LockKeyError.
 * `site` is the class and method (or the route) that messages name. @throws LockKeyError when the template is malformed
 */
export function parseKeyTemplate(template: string, site: string, subject: TemplateSubject = 'arguments'): (values: object) => string {
  const fail: Malformed = (problem) => {
    throw new LockKeyError(`${site}: the key template '${template}' is malformed: ${problem}.`);
  };
  if (template === '') fail('it is empty');
  const { literals, paths } = split(template, fail);
  const { head, tails, valueText } = keyFrame(literals, fail);
  const placeholders = paths.map((path) => parsePath(path, subject, fail));
  return (values) => {
    let key = head;
    for (const [position, path] of placeholders.entries()) {
      try {
        key += valueText(read(values, path)) + tails[position]!;
      } catch (error) {
        const where = subject === 'arguments' ? `<${paths[position]}> (argument ${path[0]})` : `<${paths[position]}> of the request`;
        throw valueError(`${site}: no key can be made of '${template}', because ${where}`, error);
      }
    }
    // A UTF-16 unit takes at most three bytes in UTF-8, so a short key need not be measured.
    if (key.length * 3 > LONGEST_KEY_BYTES) checkLength(key, site);
    return key;
  };
}

/** Splits a template at its placeholders, into literals and one path less than literals. `<<` stands for a literal `<`. */
function split(template: string, fail: Malformed): Parts {
  const literals: string[] = [];
  const paths: string[] = [];
  let literal = '';
  for (let at = 0; at < template.length; at++) {
    const char = template.charAt(at);
    if (char !== '<') {
      literal += char;
    } else if (template.charAt(at + 1) === '<') {
      literal += '<';
      at += 1;
    } else {
      const end = template.indexOf('>', at);
      if (end === -1) fail(`'${template.slice(at)}' is not closed; write '<<' for a literal '<'`);
      paths.push(template.slice(at + 1, end));
      literals.push(literal);
      literal = '';
      at = end;
    }
  }
  literals.push(literal);
  return { literals, paths };
}

function parsePath(path: string, subject: TemplateSubject, fail: Malformed): readonly string[] {
  const segments = path.split('.');
  if (!segments.every((segment) => /^[^\s<>]+$/u.test(segment))) {
    fail(`'<${path}>' has an empty part; expected ${subject === 'arguments' ? '<0> or <0.id>' : '<user.id>'}`);
  }
  const startsWithNumber = /^(?:0|[1-9]\d*)$/.test(segments[0]!);
  if (subject === 'arguments' && !startsWithNumber) fail(`'<${path}>' does not start with the position of an argument; expected <0> or <0.id>`);
  if (subject === 'request' && startsWithNumber) {
    fail(`'<${path}>' starts with the position of an argument, and a route has none; expected a path into the request, such as <params.id>`);
  }
  return segments;
}

function read(subject: unknown, path: readonly string[]): unknown {
  let value = subject;
  for (const segment of path) {
    // A missing part in the middle of the path makes the value missing, which valueText refuses.
    if (value === undefined || value === null) return value;
    value = Reflect.get(Object(value), segment);
  }
  return value;
}

/** Placeholders of other notations: `{0}`, `${id}`, `#{id}`, `{{id}}`, `$0`, `%s`, `:id`. */
const FOREIGN = /[$#]?\{[^{}<>]+\}|\$\w[\w.]*|#\w+\.\w+|%[sdi](?!\w)|(?<=[/:]|^):[A-Za-z_]\w*/;

/**
 * What to tell of a template without any placeholder of ours that has one of another notation, which is text here, so that calls which should
 * have a lock each would all share one. It is the end of a sentence that begins with the method or route. `parameters`: how many that has.
 */
export function foreignPlaceholder(template: string, parameters: number): string | undefined {
  const found = FOREIGN.exec(template);
  if (found === null || parameters === 0 || /<[^<]/.test(template.replaceAll('<<', ''))) return undefined;
  return (
    `'${found[0]}' in its key '${template}' is text, the same for every call. A placeholder is <0> for the first argument, <0.id> for a property ` +
    `of it, and of a route a path into the request, such as <params.id>. If the text itself is meant, give a function: () => '${template}'.`
  );
}
