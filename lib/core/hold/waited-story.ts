/** Tells in a LockTimeoutError why the wait was in vain. */
import type { BusyHolder, WaitFacts } from '../port/errors.js';

/** How many holders of a shared lock a message names at most. */
const MAX_HOLDERS_NAMED = 3;

/** The sentences that follow on "Lock … was still busy". `idle`: a holder is a lease of this process in which no code has run. */
export function waitedStory({ holders = [], held = [], cycle }: WaitFacts, idle: boolean): string {
  const sentences: string[] = [];
  if (holders.length > 0) {
    const more = holders.length > MAX_HOLDERS_NAMED ? `; and ${holders.length - MAX_HOLDERS_NAMED} more` : '';
    sentences.push(`Held by ${holders.slice(0, MAX_HOLDERS_NAMED).map(holderText).join('; ')}${more}.`);
  }
  if (held.length > 0) sentences.push(`The call that waited holds ${held.map((key) => `'${key}'`).join(', ')}.`);
  if (cycle) {
    const names = [...cycle, cycle[0]!].map((key) => `'${key}'`).join(' -> ');
    sentences.push(
      `Deadlock in this process: ${names}, each held by a call that waits for the next. ` +
        'Name all of them in one call, or take them in the same order everywhere.',
    );
  }
  if (idle) {
    sentences.push(
      'A holder in this process got its lease from acquire(), and no code runs inside it: code that has it and asks for the lock again ' +
        'waits for itself. Run the inner call inside the hold, with lease.run(fn).',
    );
  }
  return sentences.map((sentence) => ` ${sentence}`).join('');
}

function holderText({ label, owner, process, host, pid, since, isHere, handedOff }: BusyHolder): string {
  const where = isHere ? 'this process' : host === undefined ? `process ${process}` : `${host}, pid ${pid}`;
  const who = [label, owner === undefined ? undefined : `owner '${owner}'`].filter((part) => part !== undefined).join(', ');
  const from = since === undefined ? '' : ` since ${since.toISOString()}`;
  const ticket = handedOff ? ', handed off with a ticket that nobody has adopted yet' : '';
  return `${who === '' ? where : `${who} in ${where}`}${from}${ticket}`;
}
