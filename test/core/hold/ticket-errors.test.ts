import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../../lib/core/port/errors.js';
import { foreignTicketError, handOffError, lateTicketError } from '../../../lib/core/port/hold-errors.js';
import type { Ticket } from '../../../lib/core/port/ticket.js';

const ticket: Ticket = { home: 'redis {lock}', instance: 'default', keys: ['k', 'l'], process: 'p', secret: 's', until: 1 };

describe('The error of a ticket', () => {
  it.each([
    ['another prefix', { home: 'redis {other lock}', instance: 'default' }, `this ticket is of a Redis with the prefix '{lock}', but was given to a Redis with the prefix '{other lock}'.`],
    ['an embedded store', { home: 'embedded 7', instance: 'default' }, `this ticket is of a Redis with the prefix '{lock}', but was given to an embedded store, which is in one process only.`],
    ['another module', { home: 'redis {lock}', instance: 'jobs' }, `this ticket is of the lock module 'default', but was given to the lock module 'jobs'.`],
  ])('that was brought to %s says where it belongs', (_where, here, told) => {
    expect(foreignTicketError(ticket, here)).toMatchObject({ code: 'LOCK_USAGE', key: 'k' });
    expect(foreignTicketError(ticket, here).message).toBe(`Lock 'k': ${told} The store was not asked. Adopt it where its locks are.`);
  });

  it.each([
    [1_500.4, 1_500],
    [0.2, 1],
    [0, 1],
  ])('that came %d ms too late says so in whole milliseconds, and never that it came in time: %d', (lateByMs, told) => {
    expect(lateTicketError('k', lateByMs).message).toMatch(new RegExp(`^Lock 'k' was lost: its ticket came too late, ${told} ms after its end\\.`));
  });

  it('that was never made says why and what became of the hold, and that it cannot be tried again', () => {
    const cause = new LockStoreError('No node answered.', { nodes: [{ node: 'a:6379', reason: 'timeout' }] });
    expect(handOffError('k', cause)).toMatchObject({ key: 'k', cause, nodes: cause.nodes, retryable: false });
    expect(handOffError('k', cause).message).toMatch(/^Lock 'k' could not be handed off: a:6379: timeout\. The hold has ended and there is no ticket;/);
  });
});
