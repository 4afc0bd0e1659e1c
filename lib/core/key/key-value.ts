/**
 * Makes the text of a value that may stand in a key, which is an id. Every other value is refused with an error whose message
 * completes the sentence "<0> (argument 0) …" and never contains the value itself, which may be secret.
 */
import { LockKeyError } from '../port/errors.js';

/** Refuses a value that cannot stand in a key. Its message completes a sentence that begins with the placeholder. */
export class UnfitForKey extends Error {}

/** The error of a key that cannot be made, because of what was thrown for one of its values. `start` names the template and the value. */
export function valueError(start: string, thrown: unknown): LockKeyError {
  if (thrown instanceof UnfitForKey) return new LockKeyError(`${start} ${thrown.message}.`);
  return new LockKeyError(`${start} could not be read.`, { cause: thrown });
}

const OBJECT_TEXT = /\[object \w+\]/;

/** The text of a string, number, bigint, boolean or Date, or of an object with a toString of its own. @throws UnfitForKey */
export function keyText(value: unknown): string {
  switch (typeof value) {
    case 'string':
      if (value === '') throw new UnfitForKey('is an empty string');
      if (value === 'undefined') throw new UnfitForKey(`is the text 'undefined', which a missing value becomes`);
      if (value.includes('[object ') && OBJECT_TEXT.test(value)) throw new UnfitForKey('is the text of an object without an id');
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new UnfitForKey(`is ${value}`);
      return String(value);
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'object':
      if (value === null) throw new UnfitForKey('is null');
      return objectText(value);
    case 'undefined':
      throw new UnfitForKey('is undefined');
    default:
      throw new UnfitForKey(`is a ${typeof value}`);
  }
}

function objectText(value: object): string {
  // The type is read from the tag, because instanceof is false for an object of another realm (worker, vm).
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (tag === 'Date') return dateText(value);
  if (Array.isArray(value)) throw new UnfitForKey('is an array: name a part of it, or give a function that makes its keys');
  if ('then' in value && typeof value.then === 'function') {
    throw new UnfitForKey('is a promise: await it before the call');
  }
  if (tag === 'Error' || tag === 'RegExp' || ArrayBuffer.isView(value)) {
    throw new UnfitForKey(`is of type ${tag}, which is no id`);
  }
  const text = textOf(value);
  // An object without a toString of its own has the text of Object.prototype.toString, whatever realm it is of.
  if (text === undefined || /^\[object .*\]$/s.test(text)) {
    const object = `is an object (${className(value)}) without an id-like toString`;
    throw new UnfitForKey(`${object}: name a property of it, as in <0.id>`);
  }
  if (text === '') throw new UnfitForKey(`is an object (${className(value)}) whose toString is empty`);
  if (text === 'undefined' || OBJECT_TEXT.test(text)) {
    throw new UnfitForKey(`is an object (${className(value)}) whose toString gives the text of a missing value or of an object without an id`);
  }
  return text;
}

function dateText(value: object): string {
  const time = Number(value);
  if (Number.isNaN(time)) throw new UnfitForKey('is an invalid Date');
  return new Date(time).toISOString();
}

/** The text that the object's toString returns; undefined when it has none, or returns no string. */
function textOf(value: object): string | undefined {
  const { toString } = value;
  if (typeof toString !== 'function') return undefined;
  const text: unknown = Reflect.apply(toString, value, []);
  return typeof text === 'string' ? text : undefined;
}

function className(value: object): string {
  const { constructor } = value;
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'without a class';
}
