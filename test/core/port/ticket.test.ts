/** A ticket as text. */
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { LockUsageError } from '../../../lib/core/port/errors.js';
import { isTicketId, newSecret, readTicket, ticketIdOf, ticketText, type Ticket } from '../../../lib/core/port/ticket.js';

const ticket: Ticket = { home: 'redis {lock}', instance: 'default', keys: ['order:7', 'käse 😀'], process: 'web-1:42:f3a9', secret: newSecret(), until: 1_795_392_000_123, memory: 'run-5' };
const text = ticketText(ticket);
const DAMAGED = 'This text is not a ticket, or it was damaged; the store was not asked.';

/** A text with the check of a ticket, and something else in it. */
function sealed(content: string): string {
  const body = Buffer.from(content).toString('base64url');
  return `hold1.${body}.${createHash('sha256').update(body).digest('base64url').slice(0, 8)}`;
}

/** The text with another character at this position. */
function withOther(at: number): string {
  return text.slice(0, at) + (text.charAt(at) === 'A' ? 'B' : 'A') + text.slice(at + 1);
}

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
