import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { isLockError, LockClosedError, LockLostError, LockStoreError, LockTimeoutError, LockUsageError, messageOf } from '../../../lib/core/port/errors.js';
import { asStoreError, busyError, givenUpError, lateError, notHeldError, outageError, silenceError } from '../../../lib/core/port/hold-errors.js';
import { sinceOf, untilFree, whereaboutsOf } from '../../../lib/core/port/lock-state.js';
import { isTicketId, newSecret, readTicket, type Ticket, ticketIdOf, ticketText } from '../../../lib/core/port/ticket.js';

describe('An error of this library', () => {
  it('has a cause only where there was one, so that logs do not print an empty one', () => {
    const cause = new Error('ECONNRESET');
    expect(new LockStoreError('The store failed.', { cause })).toHaveProperty('cause', cause);
    expect('cause' in new LockStoreError('The store failed.')).toBe(false);
  });

  it('writes a line break in a key, a label or an answer of a server as text, so that nobody can write lines into a log; its key is as it was', () => {
    const key = 'a\r\nERROR all is lost\u2028\u001b]0;';
    const error = new LockTimeoutError(`Lock '${key}' is busy.`, { key, waitMs: 0 });
    expect(error.message).toBe(String.raw`Lock 'a\u000d\u000aERROR all is lost\u2028\u001b]0;' is busy.`);
    expect(error.key).toBe(key);
    expect(String(error.stack).split('\n').filter((line) => line.startsWith('ERROR'))).toEqual([]);
  });

  it('of a wait of which nothing more is known names no holders and no locks of the caller', () => {
    expect(new LockTimeoutError(`Lock 'k' is busy.`, { key: 'k', waitMs: 0 })).toMatchObject({ key: 'k', waitMs: 0, holders: [], held: [] });
  });

  it('of a lease that was lost tells how the work ended, where there was work', () => {
    const outcome = { status: 'fulfilled', value: 7 } as const;
    expect(new LockLostError(`Lock 'k' was lost.`, { key: 'k', outcome })).toMatchObject({ key: 'k', outcome });
    expect(new LockLostError(`Lock 'k' was lost.`, { key: 'k' }).outcome).toBeUndefined();
  });

  it.each<[string, unknown]>([
    ['an error of this package', new LockClosedError('The lock module has shut down.')],
    ['one of another copy of it', Object.assign(new Error('busy'), { code: 'LOCK_TIMEOUT' })],
  ])('is known by its code: %s', (_name, error) => expect(isLockError(error)).toBe(true));

  it.each<[string, unknown]>([
    ['an error of the system', Object.assign(new Error('busy'), { code: 'EBUSY' })],
    ['an error whose code only holds the word', Object.assign(new Error('no'), { code: 'ERR_LOCK_FILE' })],
    ['an error without a code', new Error('LOCK_TIMEOUT')],
    ['a text', 'LOCK_TIMEOUT'],
    ['a function', Object.assign(() => {}, { code: 'LOCK_TIMEOUT' })],
    ['null', null],
    ['undefined', undefined],
  ])('is not %s', (_name, error) => expect(isLockError(error)).toBe(false));
});

describe('The words of what was thrown', () => {
  it.each([
    ['an error', new Error('it broke'), 'it broke'],
    ['an error of another realm', { name: 'Error', message: 'it broke there' }, 'it broke there'],
    ['a string', 'no', 'no'],
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['an error of several', Object.assign(new Error(''), { errors: [new Error('refused'), 'gone'], code: 'ECONNREFUSED' }), 'refused; gone'],
    ['an error of a single one', Object.assign(new Error(''), { errors: [new Error('refused')] }), 'refused'],
    ['an error of none', Object.assign(new Error(''), { errors: [], code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ['an error without anything', new Error(''), ''],
    ['an object without a prototype', Object.create(null), 'an object without a text'],
    ['an object that lets nobody look at it', new Proxy({}, { get: () => { throw new Error('no'); }, has: () => { throw new Error('no'); } }), 'an object without a text'],
    ['an object whose message has no text', { message: Object.create(null) as unknown }, 'an object without a text'],
  ])('are found in %s', (_name, thrown: unknown, words) => expect(messageOf(thrown)).toBe(words));
});

/** What the errors of calls and holds say. */
describe('The error of a lock that the running code must hold', () => {
  it.each([
    ['write', false, 'must be held for writing by the code that runs here, but that code does not hold it.'],
    ['write', true, 'must be held for writing by the code that runs here, but that code holds it for reading only.'],
    ['read', false, 'must be held for reading by the code that runs here, but that code does not hold it.'],
  ] as const)('says how it must be held, and how it is: for %s, held for reading: %s', (mode, isHeldForReading, told) => {
    expect(notHeldError('k', mode, isHeldForReading)).toBeInstanceOf(LockUsageError);
    expect(notHeldError('k', mode, isHeldForReading).message).toBe(`Lock 'k' ${told} Call it inside withLock or a locked method.`);
  });
});

describe('The error of a wait that was in vain', () => {
  it('says how long the call waited, or that it did not', () => {
    expect(busyError('k', 300).message).toBe(`Lock 'k' was still busy after 300 ms. It was not taken; try again later.`);
    expect(busyError('k', 0).message).toBe(`Lock 'k' is busy. It was not taken; try again later.`);
  });
});

describe('The error of a store that failed', () => {
  const nodes = [{ node: 'a:6379', reason: 'refused' }, { node: 'b:6379', reason: 'timeout' }];
  const passing = new LockStoreError('The store failed.', { nodes });
  const lasting = new LockStoreError('The store failed.', { nodes, retryable: false });

  it('says whether to try again or to call an operator', () => {
    expect(outageError('k', 300, passing).message).toBe(
      `Lock 'k' could not be acquired within 300 ms, because the store failed: a:6379: refused; b:6379: timeout. ` +
        'The work did not begin, and what may have been granted is released in the background; it is safe to try again.',
    );
    expect(outageError('k', 0, lasting).message).toMatch(/could not be acquired in time, .*; trying again does not help until an operator has corrected the server\.$/);
    expect(outageError('k', 0, passing)).toMatchObject({ key: 'k', cause: passing, nodes, retryable: true });
    expect(outageError('k', 0, lasting)).toMatchObject({ cause: lasting, retryable: false });
  });

  it('is passed on as it is where it says itself what to do: without servers, or for an operator', () => {
    const complete = new LockStoreError(`Lock 'k': the request reached the store too late. It is safe to try again.`);
    expect(givenUpError('k', 300, complete)).toBe(complete);
    expect(givenUpError('k', 300, lasting)).toBe(lasting);
    expect(givenUpError('k', 300, passing)).toMatchObject({ key: 'k', cause: passing });
  });

  it('is that of a defect when a store throws something else', () => {
    const thrown = new TypeError('x is not a function');
    expect(asStoreError(passing, 'k')).toBe(passing);
    expect(asStoreError(thrown, 'k')).toBeInstanceOf(LockStoreError);
    expect(asStoreError(thrown, 'k')).toMatchObject({ key: 'k', cause: thrown, retryable: false });
    expect(asStoreError(thrown, 'k').message).toContain(`Lock 'k': the store failed: TypeError: x is not a function. This is a defect`);
  });

  it('names the server that was asked too late, where there is one', () => {
    expect(lateError('k', 'a:6379')).toMatchObject({ nodes: [{ node: 'a:6379', reason: 'late' }], retryable: true });
    expect(lateError('k', 'a:6379').message).toContain('the request reached a:6379 too late');
    expect(lateError('k')).toMatchObject({ nodes: [] });
    expect(lateError('k').message).toContain('the request reached the store too late');
  });
});

describe('A store that does not answer', () => {
  it('is told from a lock that is busy', () => {
    expect(silenceError('k', 300).message).toContain(`Lock 'k': the store did not respond within 300 ms. The work did not begin`);
    expect(silenceError('k', 0).message).toContain(`Lock 'k': the store did not respond in time.`);
    expect(silenceError('k', 0, 'a:6379')).toMatchObject({ nodes: [{ node: 'a:6379', reason: 'no answer in time' }], message: expect.stringContaining(`the store (a:6379) did not respond in time.`) });
    expect(silenceError('k', 300)).toMatchObject({ nodes: [] });
    expect(silenceError('k', 300, undefined, 1).message).toContain('or fewer than 1 replicas acknowledged the grant');
    expect(silenceError('k', 300, 'a:6379', 2).nodes).toEqual([{ node: 'a:6379', reason: 'no answer within 300 ms, or fewer than 2 replicas acknowledged the grant' }]);
  });
});

describe('A holder id', () => {
  it.each([
    ['web-1:42:f3a9.17', { process: 'web-1:42:f3a9', host: 'web-1', pid: 42 }],
    ['node.example.org:7:f3a9.1', { process: 'node.example.org:7:f3a9', host: 'node.example.org', pid: 7 }],
    ['f3a9.17', { process: 'f3a9' }],
    ['billing:eu:f3a9.17', { process: 'billing:eu:f3a9' }],
    ['web-1:42:f3a9:x.17', { process: 'web-1:42:f3a9:x' }],
  ])('%s tells where the holder runs, as far as its process says so', (id, where) => expect(whereaboutsOf(id)).toEqual(where));
});

describe('A fence', () => {
  it('that comes from a clock tells when the hold began, in whole milliseconds', () => {
    expect(sinceOf(Date.UTC(2026, 10, 23) * 1_000 + 999)).toBe(Date.UTC(2026, 10, 23));
    expect(sinceOf(Date.UTC(2020, 0) * 1_000)).toBe(Date.UTC(2020, 0));
  });

  it('that is too small for a clock that is set tells nothing', () => {
    expect(sinceOf(Date.UTC(2020, 0) * 1_000 - 1)).toBeUndefined();
    expect(sinceOf(17)).toBeUndefined();
  });
});

describe('What is left of a hold', () => {
  it.each([
    ['without a grace is its lease', 5_000, 0, { remainingMs: 5_000 }],
    ['with a grace is its lease, and the grace after it', 5_000, 2_000, { remainingMs: 3_000, graceMs: 2_000 }],
    ['at the end of its lease is the grace', 2_000, 2_000, { remainingMs: 0, graceMs: 2_000 }],
    ['in its grace is what the grace still lasts', 500, 2_000, { remainingMs: 0, graceMs: 500 }],
    ['with a grace of one millisecond is both', 10, 1, { remainingMs: 9, graceMs: 1 }],
  ])('%s', (_what, leftMs, graceMs, told) => expect(untilFree(leftMs, graceMs)).toEqual(told));
});

const ticket: Ticket = { home: 'redis {lock}', instance: 'default', keys: ['order:7', 'käse 😀'], process: 'web-1:42:f3a9', secret: newSecret(), until: 1_795_392_000_123, memory: 'run-5' };
const text = ticketText(ticket);
const DAMAGED = 'This text is not a ticket, or it was damaged; the store was not asked.';

/** A text with the check of a ticket, and something else in it. */
function sealed(content: string): string {
  const body = Buffer.from(content).toString('base64url');
  return `hold1.${body}.${createHash('sha256').update(body).digest('base64url').slice(0, 8)}`;
}

/** The text with another character at this position. */
const withOther = (at: number): string => text.slice(0, at) + (text.charAt(at) === 'A' ? 'B' : 'A') + text.slice(at + 1);

describe('A ticket', () => {
  it('is one word, which says all that was put into it', () => {
    expect(text).toMatch(/^hold1\.[\w-]+\.[\w-]{8}$/);
    expect(readTicket(text)).toEqual(ticket);
    expect(readTicket(ticketText({ ...ticket, memory: undefined }))).toEqual({ ...ticket, memory: undefined });
    expect(readTicket(ticketText({ ...ticket, keys: ['k'] })).keys).toEqual(['k']);
  });

  it('is read from whoever wrote it, so that one of this version stays good', () => {
    const facts = [1_795_392_000_123, 'redis {lock}', 'default', 'p', 'secret', '', 'k'];
    expect(readTicket(sealed(JSON.stringify(facts)))).toEqual({ home: 'redis {lock}', instance: 'default', process: 'p', secret: 'secret', until: 1_795_392_000_123, memory: undefined, keys: ['k'] });
  });

  it('is refused when any character of it is another one, or one is missing', () => {
    for (let at = 0; at < text.length; at += 1) expect(() => readTicket(withOther(at))).toThrow(LockUsageError);
    expect(() => readTicket(text.slice(0, -1))).toThrow(DAMAGED);
    expect(() => readTicket(text.slice(1))).toThrow(DAMAGED);
    expect(() => readTicket(`${text} `)).toThrow(DAMAGED);
  });

  it.each<[string, string]>([
    ['an empty text', ''],
    ['another text', 'order:7'],
    ['the beginning of one', 'hold1.'],
    ['one that is empty', sealed('')],
    ['no JSON', sealed('[1')],
    ['no list', sealed('{"until":1}')],
    ['no time', sealed('["1","redis","default","p","secret","","k"]')],
    ['a key that is no text', sealed('[1,"redis","default","p","secret","",7]')],
    ['no key', sealed('[1,"redis","default","p","secret",""]')],
  ])('is not %s', (_what, given) => {
    expect(() => readTicket(given)).toThrow(LockUsageError);
    expect(() => readTicket(given)).toThrow(DAMAGED);
  });

  it.each<[string, unknown]>([['undefined', undefined], ['null', null], ['object', { text }], ['number', 7]])('is not %s, and the error says what to bring', (got, given) => {
    expect(() => readTicket(given)).toThrow(LockUsageError);
    expect(() => readTicket(given)).toThrow(`A ticket is the text that lease.handOff() gave, got ${got}. Put that text into the job's data.`);
  });
});

describe('The secret of a ticket', () => {
  it('has 128 random bits', () => {
    const secrets = Array.from({ length: 50 }, () => newSecret());
    for (const secret of secrets) expect(Buffer.from(secret, 'base64url')).toHaveLength(16);
    expect(new Set(secrets).size).toBe(50);
  });

  it('cannot be read from the holder id of the ticket, which says whose the hold was', () => {
    const id = ticketIdOf(ticket);
    expect(id).toBe(`web-1:42:f3a9.=${createHash('sha256').update(ticket.secret).digest('base64url').slice(0, 22)}`);
    expect(id).not.toContain(ticket.secret);
    expect(ticketIdOf({ ...ticket, secret: newSecret() })).not.toBe(id);
  });

  it('makes a holder id that is told from every other', () => {
    expect(isTicketId(ticketIdOf(ticket))).toBe(true);
    expect(isTicketId('web-1:42:f3a9.17')).toBe(false);
    expect(isTicketId('web.=1:42:f3a9.17')).toBe(false);
    expect(isTicketId('p1')).toBe(false);
  });
});
