/**
 * Results of a locked method or route whose work goes on, or begins, after they were given: streams, and functions that somebody calls
 * later. They are refused, because the lock is free by then. A stream is ended, because otherwise it would keep its file or connection open.
 */
import { isObservable } from 'rxjs';
import { LockUsageError, seen } from '../core/port/errors.js';

/** What is locked, for the advice in the message. */
type Locked = 'method' | 'route';

const SENT =
  'which Nest would send after the lock was given back. Let the handler write it to the response itself, with @Res(), and await that: ' +
  'await pipeline(stream, response).';
const STREAM: Readonly<Record<Locked, string>> = {
  method:
    'is locked and gave a stream, which would go on after its lock was given back. Let it return an Observable and give the decorator the ' +
    "option returns: 'observable', use LockService.withLock around what reads the stream, or let an async generator take the lock itself: " +
    'await using lease = await locks.acquire(key).',
  route: `locks a route whose handler gave a stream, ${SENT}`,
};
const FUNCTION: Readonly<Record<Locked, string>> = {
  method:
    'is locked and gave a function, whose work would begin when somebody calls it, after the lock was given back. Use LockService.withLock inside ' +
    'of that function. A handler of ts-rest needs LockInterceptor.of below its @TsRestHandler.',
  route:
    'locks a route whose handler gave a function, which an interceptor outside of this one would call after the lock was given back. Let ' +
    'this one be the outer one: put it below the decorator of the other (@TsRestHandler), or on the class.',
};

/** Refuses a result whose work is not done. @throws LockUsageError that begins with `site` */
export function refuseUnfinished(value: unknown, site: string, locked: Locked): void {
  if (isStream(value)) {
    endStream(value);
    throw new LockUsageError(`${site} ${locked === 'method' && isFile(value) ? `is locked and gave a file, ${SENT}` : STREAM[locked]}`);
  }
  if (seen(() => isWork(value) || (locked === 'route' && isWorkOfRoutes(value)), false)) throw new LockUsageError(`${site} ${FUNCTION[locked]}`);
}

/** True if this is a function, and no class. */
function isWork(value: unknown): boolean {
  return typeof value === 'function' && Object.getOwnPropertyDescriptor(value, 'prototype')?.writable !== false;
}

/** True if this has nothing but functions, as ts-rest takes for several routes. As data it could not be sent; a method may give such an object. */
function isWorkOfRoutes(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0 && Object.values(value).every(isWork);
}

/** True if work goes on while this value is read: an Observable, a Node or web stream, a generator, a StreamableFile. */
export function isStream(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return seen(() => isObservable(value) || hasMethod(value, Symbol.asyncIterator) || isGenerator(value) || isNodeStream(value) || isFile(value), false);
}

/** True if the body of a function with `yield` goes on while this is read. */
function isGenerator(value: object): boolean {
  return hasMethod(value, 'next') && hasMethod(value, 'throw') && hasMethod(value, Symbol.iterator);
}

/** True if this is a StreamableFile, of whichever copy of Nest. */
function isFile(value: object): value is { getStream(): object } {
  return hasMethod(value, 'getStream') && hasMethod(value, 'getHeaders');
}

/** Data may have a field of that name: a part of a plant may say of which `pipe` it is. */
function hasMethod<Name extends string | symbol>(value: object, name: Name): value is Record<Name, CallableFunction> {
  return typeof Reflect.get(value, name) === 'function';
}

/**
 * Data on which functions can be called in a row has a method `pipe` as well, such as an Option of `effect`. A stream has events too, and
 * what React renders to can be aborted.
 */
function isNodeStream(value: object): boolean {
  return hasMethod(value, 'pipe') && (hasMethod(value, 'on') || hasMethod(value, 'abort')) && !isSink(value);
}

/** True if this is a writable stream only, such as the response that a handler with @Res() returns by `return res.json(…)`. */
function isSink(value: object): boolean {
  return 'write' in value && !('readable' in value);
}

/** The methods that end a Node stream, a web stream, what React renders to, and an iterator. A Node stream is an iterator as well. */
const ENDS = ['destroy', 'cancel', 'abort', 'return'] as const;

/** Ends the stream in the background. The caller is told that it was refused, so nobody needs to know whether the end fails. */
export function endStream(stream: object): void {
  ended(stream).catch(() => undefined);
}

async function ended(given: object): Promise<void> {
  const stream = isFile(given) ? given.getStream() : given;
  // A file that cannot be opened says so by an event, which would end the process if nobody listened.
  if (hasMethod(stream, 'on')) stream.on('error', () => undefined);
  const end = ENDS.find((name) => hasMethod(stream, name));
  if (end !== undefined) await Reflect.apply(Reflect.get(stream, end), stream, []);
}
