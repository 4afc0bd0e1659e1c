/**
 * Key templates: `order:<0.customer.id>` is parsed once, when the class is defined, and rendered at each call.
 *
 *   - Values are escaped so that one template never makes one key of different values: every separator has a character
 *     that stands in no rendered value, so the end of each value can be found in the key. It is ':' where there is one.
 *   - No brace and no control character reaches a key, so that it cannot choose its own slot.
 */
import { LockKeyError } from '../port/errors.js';
import { escapeUnsafe, guardOf, LONE_SURROGATE, valueEscaper } from './key-escape.js';
import { keyText, UnfitForKey } from './key-value.js';

/** Longer keys are refused: they cost memory at every holder and are mostly a mistake (a whole document as an id). */
export const LONGEST_KEY_BYTES = 512;

/** What the placeholders of a template start with: the position of an argument, or a property of a request. */
export type TemplateSubject = 'arguments' | 'request';

export interface KeyTemplate {
  /** Renders the key from the arguments of a call, or from a request. @throws LockKeyError */
  render(subject: object): string;
}

interface Placeholder {
  /** As written: `<0.customer.id>`. */
  readonly source: string;
  readonly path: readonly string[];
  /** The text that follows it, escaped. */
  readonly after: string;
}

/** What messages say. */
interface Origin {
  readonly template: string;
  readonly place: string;
  readonly subject: TemplateSubject;
}

interface Parts {
  readonly literals: readonly string[];
  readonly paths: readonly string[];
}

const UNSAFE_OR_BROKEN = /[{}\u0000-\u001f\u007f-\u009f]|\p{Cs}/u;
/** A forgotten value as a whole part of a key. In a key that was given whole, also by an operator, more than that may be data. */
const FORGOTTEN_PART = /(?:^|:)undefined(?:$|:)|\[object \w+\]/;

/**
 * Parses a template. `place` is the class and method (or the route) that messages name.
 * @throws LockKeyError when the template is malformed
 */
export function parseKeyTemplate(template: string, place: string, subject: TemplateSubject = 'arguments'): KeyTemplate {
  const fail = (problem: string): never => {
    throw new LockKeyError(`${place}: the key template '${template}' is malformed: ${problem}.`);
  };
  if (typeof template !== 'string') throw new LockKeyError(`${place}: expected a key template, got ${typeof template}.`);
  if (template === '') fail('it is empty');
  if (LONE_SURROGATE.test(template)) fail('it holds half a surrogate pair');
  const { literals, paths } = split(template, fail);
  const [head = '', ...following] = literals;
  const separators = following.slice(0, -1);
  checkSeparators(separators, fail);
  const placeholders = paths.map((path, position): Placeholder => {
    const after = escapeUnsafe(following[position] ?? '');
    return { source: `<${path}>`, path: parsePath(path, subject, fail), after };
  });
  const escapeValue = valueEscaper(separators.flatMap((separator) => guardOf(separator) ?? []));
  return renderer(escapeUnsafe(head), placeholders, escapeValue, { template, place, subject });
}

/** Splits at the placeholders: always one literal more than paths. `<<` stands for a literal `<`. */
function split(template: string, fail: (problem: string) => never): Parts {
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
      if (end < 0) fail(`'${template.slice(at)}' is not closed; write '<<' for a literal '<'`);
      paths.push(template.slice(at + 1, end));
      literals.push(literal);
      literal = '';
      at = end;
    }
  }
  literals.push(literal);
  return { literals, paths };
}

function checkSeparators(separators: readonly string[], fail: (problem: string) => never): void {
  for (const separator of separators) {
    if (separator === '') fail(`two placeholders need a separator between them, such as ':'`);
    if (guardOf(separator) === undefined) fail(`the separator '${separator}' could be part of a value; use ':'`);
  }
}

function parsePath(path: string, subject: TemplateSubject, fail: (problem: string) => never): readonly string[] {
  const segments = path.split('.');
  if (!segments.every((segment) => /^[^\s<>]+$/u.test(segment))) {
    fail(`'<${path}>' has an empty part; expected ${subject === 'arguments' ? '<0> or <0.id>' : '<user.id>'}`);
  }
  const startsWithNumber = /^(?:0|[1-9]\d*)$/.test(segments[0] ?? '');
  if (subject === 'arguments' && !startsWithNumber) fail(`'<${path}>' does not start with the position of an argument; expected <0> or <0.id>`);
  if (subject === 'request' && startsWithNumber) {
    fail(`'<${path}>' starts with the position of an argument, and a route has none; expected a path into the request, such as <params.id>`);
  }
  return segments;
}

function renderer(
  head: string,
  placeholders: readonly Placeholder[],
  escapeValue: (text: string) => string,
  origin: Origin,
): KeyTemplate {
  return {
    render: (subject) => {
      let key = head;
      for (const placeholder of placeholders) {
        try {
          key += escapeValue(keyText(read(subject, placeholder.path))) + placeholder.after;
        } catch (error) {
          throw valueError(error, placeholder, origin);
        }
      }
      if (key.length * 3 > LONGEST_KEY_BYTES) checkLength(key, `${origin.place}: `);
      return key;
    },
  };
}

function read(subject: unknown, path: readonly string[]): unknown {
  let value = subject;
  for (const segment of path) {
    // What is missing half way is as missing as what is missing at the end.
    if (value === undefined || value === null) return value;
    value = typeof value === 'object' ? Reflect.get(value, segment) : Reflect.get(Object(value), segment);
  }
  return value;
}

function valueError(error: unknown, { source, path }: Placeholder, { template, place, subject }: Origin): LockKeyError {
  const where = subject === 'arguments' ? `${source} (argument ${path[0]})` : `${source} of the request`;
  const start = `${place}: no key can be made of '${template}', because ${where}`;
  if (error instanceof UnfitForKey) return new LockKeyError(`${start} ${error.message}.`);
  return new LockKeyError(`${start} could not be read.`, { cause: error });
}

/**
 * Makes a key that was given whole safe: braces and control characters are escaped. Applied to a key that was escaped
 * before, it changes nothing, so that `inspect(lease.key)` finds the same lock. `place` starts the messages.
 * @throws LockKeyError when it is empty, no string, too long, or made of a forgotten value
 */
export function escapeKey(raw: string, place = ''): string {
  const at = place === '' ? '' : `${place}: `;
  if (typeof raw !== 'string') throw new LockKeyError(`${at}expected a key, got ${typeof raw}.`);
  if (raw === '') throw new LockKeyError(`${at}a key must not be empty.`);
  let key = raw;
  if (UNSAFE_OR_BROKEN.test(raw)) {
    if (LONE_SURROGATE.test(raw)) throw new LockKeyError(`${at}the key holds half a surrogate pair.`);
    key = escapeUnsafe(raw);
  }
  if (key.length * 3 > LONGEST_KEY_BYTES) checkLength(key, at);
  if ((key.includes('undefined') || key.includes('[object ')) && FORGOTTEN_PART.test(key)) {
    throw new LockKeyError(`${at}the key '${key}' was made of a value that is missing or is no id. Mend what made it.`, { key });
  }
  return key;
}

function checkLength(key: string, at: string): void {
  const bytes = Buffer.byteLength(key);
  if (bytes <= LONGEST_KEY_BYTES) return;
  const start = `${at}the key '${key.slice(0, 40)}…' has ${bytes} bytes`;
  throw new LockKeyError(`${start}, more than the ${LONGEST_KEY_BYTES} allowed. Lock an id, or a hash of the value.`);
}
