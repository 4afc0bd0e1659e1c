/**
 * Templates of keys: `order:<0.customer.id>` of decorators and routes, and the tag lockKey. Each is taken apart once, into the texts before,
 * between and after its values and the places from which the values are read, and makes of the same values the same key:
 *
 *   - A template with one placeholder makes the string that one would write by hand.
 *   - In one with several, values are escaped as far as different values need different keys (see key-value.ts).
 */
import { LockKeyError } from '../core/port/errors.js';
import { LONE_SURROGATE } from '../core/port/options.js';
import { checkKey } from '../core/key/check-key.js';
import { guardOf, UnfitForKey, valueWriter } from '../core/key/key-value.js';

/** What a template is rendered from. Its placeholders start with the position of an argument, or with a property of a request. */
type TemplateSubject = 'arguments' | 'request';

interface Placeholder {
  /** How messages name it: `<0.id> (argument 0)`. */
  readonly name: string;
  /** The properties that lead to the value of the placeholder, from the arguments of a call or from a request. */
  readonly path: readonly (string | number)[];
}

/**
 * Parses a template, and gives the function that renders a key from the arguments of a call, or from a request; that throws LockKeyError.
 * `site` is the class and method (or the route) that messages name. @throws LockKeyError when the template is malformed
 */
export function parseKeyTemplate(template: string, site: string, subject: TemplateSubject = 'arguments'): (values: object) => string {
  if (template === '') throw malformed(site, template, 'it is empty');
  let literal = '';
  const literals: string[] = [];
  const placeholders: Placeholder[] = [];
  // A doubled `<` is a literal one, a single one begins a placeholder, and every other text is literal.
  for (const [text, inside] of template.matchAll(/<<|<([^>]*)>|<.*|[^<]+/gs)) {
    if (inside !== undefined) {
      const path = inside.split('.');
      const problem = pathProblem(path, subject);
      if (problem !== undefined) throw malformed(site, template, `'${text}' ${problem}`);
      placeholders.push({ name: subject === 'arguments' ? `${text} (argument ${path[0]})` : `${text} of the request`, path });
      literals.push(literal);
      literal = '';
    } else if (text === '<<') literal += '<';
    else if (text.startsWith('<')) throw malformed(site, template, `'${text}' is not closed; write '<<' for a literal '<'`);
    else literal += text;
  }
  return renderer(site, template, [...literals, literal], placeholders);
}

/** What is wrong with the path of a placeholder, as the end of a sentence that begins with it. */
function pathProblem(path: readonly string[], subject: TemplateSubject): string | undefined {
  const isOfArguments = subject === 'arguments';
  if (!path.every((segment) => /^[^\s<>]+$/u.test(segment))) return `has a part that is empty or has a space; expected ${isOfArguments ? '<0> or <0.id>' : '<user.id>'}`;
  const startsWithNumber = /^(?:0|[1-9]\d*)$/.test(path[0]!);
  if (isOfArguments && !startsWithNumber) return 'does not start with the position of an argument; expected <0> or <0.id>';
  if (isOfArguments || !startsWithNumber) return undefined;
  return 'starts with the position of an argument, and a route has none; expected a path into the request, such as <params.id>';
}

/**
 * Makes the function that renders the keys of a template, which messages show as `shown`. `literals` has one more than there are placeholders.
 * @throws LockKeyError when the end of a value could not be found in a key
 */
function renderer(site: string, shown: string, literals: readonly string[], placeholders: readonly Placeholder[]): (values: object) => string {
  if (literals.some((literal) => LONE_SURROGATE.test(literal))) throw malformed(site, shown, 'it holds half a surrogate pair');
  const guards = literals.slice(1, -1).map((separator) => {
    if (separator === '') throw malformed(site, shown, `two placeholders need a separator between them, such as ':'`);
    const guard = guardOf(separator);
    if (guard === undefined) throw malformed(site, shown, `the separator '${separator}' could be part of a value; use ':'`);
    return guard;
  });
  const written = valueWriter(guards);
  const [head = '', ...tails] = literals;
  // The parts are counted through, and not iterated over: each call comes here, and an iterator makes objects while code is cold.
  return (values) => {
    let key = head;
    for (let n = 0; n < placeholders.length; n++) {
      const { name, path } = placeholders[n]!;
      try {
        key += written(valueAt(values, path)) + tails[n]!;
      } catch (thrown) {
        const start = `${site}: no key can be made of '${shown}', because ${name}`;
        throw thrown instanceof UnfitForKey ? new LockKeyError(`${start} ${thrown.message}.`) : new LockKeyError(`${start} could not be read.`, { cause: thrown });
      }
    }
    return checkKey(key, site);
  };
}

/** What is missing in the middle of the path is the value, and refused as such. */
function valueAt(values: unknown, path: Placeholder['path']): unknown {
  let value = values;
  for (let n = 0; n < path.length && value !== undefined && value !== null; n++) value = Reflect.get(Object(value), path[n]!);
  return value;
}

/** `problem` completes the sentence "the key template … is malformed: …". */
function malformed(site: string, shown: string, problem: string): LockKeyError {
  return new LockKeyError(`${site}: the key template '${shown}' is malformed: ${problem}.`);
}

/** What renders each tagged template of the source, kept for as long as its code is. */
const tagged = new WeakMap<TemplateStringsArray, (values: object) => string>();

/**
 * Makes the key that `@Locked` makes from a template of the same shape: `` lockKey`order:${id}:${line}` `` for
 * `@Locked('order:<0>:<1>')`. With one value that is the string as written. With several values, the characters that separate
 * them are escaped inside the values, so that ('a:b', 'c') and ('a', 'b:c') are different locks.
 * @throws LockKeyError when a value is missing or is no id, or when the key is empty or too long
 */
export function lockKey(texts: TemplateStringsArray, ...values: readonly (string | number | bigint | boolean | object)[]): string {
  if (!Array.isArray(texts)) throw new LockKeyError('lockKey is a tag of a template: write lockKey`order:${id}`, without parentheses.');
  let render = tagged.get(texts);
  if (!render) tagged.set(texts, (render = tagRenderer(texts)));
  return render(values);
}

function tagRenderer(texts: TemplateStringsArray): (values: object) => string {
  /** The template's source, with the position of each value in its place: `order:${0}:${1}`. */
  const shown = texts.raw.reduce((before, text, position) => `${before}\${${position - 1}}${text}`);
  // JavaScript gives a tag undefined in place of a text that contains an invalid escape, such as `\u{x}`.
  if (texts.some((text) => text === undefined)) throw malformed('lockKey', shown, 'it has an escape that means no character');
  const placeholders = texts.slice(1).map((_, position) => ({ name: `\${${position}}`, path: [position] }));
  return renderer('lockKey', shown, texts, placeholders);
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
