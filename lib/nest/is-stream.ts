/** Tells results that are complete from those whose work goes on after the method has given them. */
import { isObservable } from 'rxjs';

/** Whether work goes on while this value is read: an Observable, a Node or web stream, a generator, a StreamableFile. */
export function isStream(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return isObservable(value) || hasMethod(value, Symbol.asyncIterator) || isGenerator(value) || isNodeStream(value) || isFile(value);
  } catch {
    // A Proxy that lets nobody look at it is data like any other.
    return false;
  }
}

/** Whether the body of a function with `yield` goes on while this is read. */
function isGenerator(value: object): boolean {
  return hasMethod(value, 'next') && hasMethod(value, 'throw') && hasMethod(value, Symbol.iterator);
}

/** Whether this is a StreamableFile, of whichever copy of Nest. */
export function isFile(value: object): value is { getStream(): object } {
  return hasMethod(value, 'getStream') && hasMethod(value, 'getHeaders');
}

/** Data may have a field of that name: a part of a plant may say of which `pipe` it is. */
export function hasMethod<Name extends string | symbol>(value: object, name: Name): value is Record<Name, CallableFunction> {
  return typeof Reflect.get(value, name) === 'function';
}

/**
 * Data on which functions can be called in a row has a method `pipe` as well, such as an Option of `effect`. A stream has events too, and
 * what React renders to can be aborted.
 */
function isNodeStream(value: object): boolean {
  return hasMethod(value, 'pipe') && (hasMethod(value, 'on') || hasMethod(value, 'abort')) && !isSink(value);
}

/** Whether this is a writable stream only, such as the response that a handler with @Res() returns by `return res.json(…)`. */
function isSink(value: object): boolean {
  return 'write' in value && !('readable' in value);
}
