/** Tells results that are complete from those whose work goes on after the method has given them. */
import { isObservable } from 'rxjs';

/** Whether work goes on while this value is read: an Observable, a Node or web stream, an async generator, a StreamableFile. */
export function isStream(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return isObservable(value) || hasMethod(value, Symbol.asyncIterator) || (hasMethod(value, 'pipe') && !isSink(value)) || hasMethod(value, 'getStream');
}

/** Data may have a field of that name: a part of a plant may say of which `pipe` it is. */
function hasMethod(value: object, name: string | symbol): boolean {
  return typeof Reflect.get(value, name) === 'function';
}

/** Whether this is a writable stream only, such as the response that a handler with @Res() returns by `return res.json(…)`. */
function isSink(value: object): boolean {
  return 'write' in value && !('readable' in value);
}
