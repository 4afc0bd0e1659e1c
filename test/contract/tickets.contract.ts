/** The contract's part about tickets: what a hold becomes between two processes. The numbers are those of core/port/ticket.ts. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { adopt as adoptFrom, type AdoptedHold, type AdoptOutcome, handOff as handOffTo, type HandOffOutcome } from '../support/ticket-desk.js';
import { USUAL_LEASE_MS, until, type Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

const WITHIN_MS = 20_000;
const SHORT_MS = 300;

interface Adopting {
  readonly leaseMs?: number;
  readonly graceMs?: number;
  readonly notAfter?: number;
  readonly ticketEnd?: number;
}

export function handsHoldsOn(stage: Stage, promised: Promised): void {
  const { clock } = stage;
  let tickets = 0;

  const newTicket = (): string => `a.=ticket${++tickets}`;

  const handOff = (ticketId: string, givers: readonly Contender[], withinMs = WITHIN_MS, stays = false, notAfter = clock.now() + 60_000): Promise<HandOffOutcome> =>
    handOffTo(givers[0]!.store, { ticketId, withinMs, holds: givers.map(({ key, id }) => ({ key, id, stays })), notAfter });
  const adopt = (ticketId: string, adopters: readonly Contender[], how: Adopting = {}): Promise<AdoptOutcome> => {
    const { leaseMs = USUAL_LEASE_MS, graceMs = 0, notAfter = clock.now() + 60_000, ticketEnd = Number.MAX_SAFE_INTEGER } = how;
    const holds = adopters.map(({ key, id }) => ({ key, id }));
    return adoptFrom(adopters[0]!.store, { ticketId, until: ticketEnd, holds, leaseMs, graceMs, label: 'Payments.pay', minReplicas: 0, notAfter });
  };
  const adopted = async (...args: Parameters<typeof adopt>): Promise<readonly AdoptedHold[]> => {
    const outcome = await adopt(...args);
    if (outcome.kind !== 'adopted') throw new Error(`expected an adoption, got ${JSON.stringify(outcome)}`);
    return outcome.holds;
  };
  /** A hold that was handed off, and who is to adopt it. */
  const handedOff = async (withinMs?: number): Promise<{ ticketId: string; giver: Contender; adopter: Contender; key: string; fence: number }> => {
    const key = stage.newKey();
    const [giver, adopter, ticketId] = [stage.contender(key), stage.contender(key), newTicket()];
    const { fence } = await giver.acquires();
    expect((await handOff(ticketId, [giver], withinMs)).kind).toBe('handedOff');
    return { ticketId, giver, adopter, key, fence };
  };
  const isOver = async (other: Contender): Promise<void> => until(clock, async () => (await other.ask({ queue: false })).kind === 'granted', 'the lock is free');

  promised(['T1', 'T3'], 'a hold goes to a ticket and from there to a new holder, with a higher fence and the terms of the new one', async () => {
    const { ticketId, giver, adopter, key, fence } = await handedOff();
    expect((await giver.inspect()).holders).toMatchObject([{ id: ticketId, fence, handedOff: true }]);
    const since = clock.now();
    const [hold] = await adopted(ticketId, [adopter], { leaseMs: 4_000, graceMs: 900 });
    expect(hold?.grant.fence).toBeGreaterThan(fence);
    expect(hold).toMatchObject({ grant: { fences: 1, mode: 'write', contended: false }, minHoldMs: 0 });
    expect(hold!.grant.trustedUntil - since).toBeGreaterThan(3_900);
    expect(hold!.grant.trustedUntil - since).toBeLessThanOrEqual(4_100);
    const [holder] = (await stage.stores()[0].inspect(key)).holders;
    expect(holder).toMatchObject({ id: adopter.id, label: 'Payments.pay', graceMs: 900 });
    expect(holder?.handedOff).toBeUndefined();
    await adopter.renews();
    expect(await giver.release()).toBe('lost');
    expect(await adopter.release()).toBe('released');
  });

  promised(['T1', 'queue'], 'nobody is let in while a hold changes hands, and who waits is let in after it', async () => {
    const key = stage.newKey();
    const [giver, waiter, adopter] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    await giver.acquires();
    await waiter.queues();
    const ticketId = newTicket();
    await handOff(ticketId, [giver]);
    expect((await waiter.askAgain()).kind).toBe('waiting');
    expect((await waiter.inspect()).waiters).toMatchObject([{ id: waiter.id }]);
    const [hold] = await adopted(ticketId, [adopter]);
    expect(hold?.grant.contended).toBe(true);
    expect((await waiter.askAgain()).kind).toBe('waiting');
    await adopter.release();
    const { fence } = await waiter.isLetIn();
    expect(fence).toBeGreaterThan(hold!.grant.fence);
    await waiter.release();
  });

  promised(['T1', 'P5'], 'what was handed off cannot be renewed or released by its giver any more, late acts of whom touch nobody', async () => {
    const { ticketId, giver, adopter } = await handedOff();
    expect((await giver.renew()).kind).toBe('lost');
    expect(await giver.release()).toBe('lost');
    expect(await giver.downgrade()).toBe('lost');
    expect((await handOff(newTicket(), [giver])).kind).toBe('lost');
    await adopted(ticketId, [adopter]);
    expect((await giver.renew()).kind).toBe('lost');
    expect(await giver.release()).toBe('lost');
    await adopter.renews();
    await adopter.release();
  });

  promised(['T3'], 'a ticket is adopted once: the second finds it gone, while the first holds and after that', async () => {
    const { ticketId, adopter, key } = await handedOff();
    const [second, third] = [stage.contender(key), stage.contender(key)];
    await adopted(ticketId, [adopter]);
    expect(await adopt(ticketId, [second])).toMatchObject({ kind: 'gone', key });
    await stage.expectHolders(key, adopter);
    await adopter.release();
    expect(await adopt(ticketId, [third])).toMatchObject({ kind: 'gone', key });
    await stage.expectHolders(key);
  });

  promised(['T4'], 'a hand-off that is sent twice keeps the end of the first, and does nothing after the adoption', async () => {
    const key = stage.newKey();
    const [giver, adopter, ticketId] = [stage.contender(key), stage.contender(key), newTicket()];
    await giver.acquires();
    const first = await handOff(ticketId, [giver], 8_000);
    await pause(clock, 30);
    const again = await handOff(ticketId, [giver], 8_000);
    expect(again).toMatchObject({ kind: 'handedOff', until: first.kind === 'handedOff' ? first.until : 0 });
    await adopted(ticketId, [adopter]);
    expect(await handOff(ticketId, [giver], 8_000)).toEqual({ kind: 'lost', key });
    await stage.expectHolders(key, adopter);
    await adopter.release();
  });

  promised(['T4'], 'an adoption that is sent twice is one grant', async () => {
    const { ticketId, adopter } = await handedOff();
    const [first] = await adopted(ticketId, [adopter]);
    const [again] = await adopted(ticketId, [adopter]);
    expect(again?.grant.fence).toBe(first?.grant.fence);
    await adopter.release();
    expect((await adopt(ticketId, [adopter])).kind).toBe('gone');
  });

  promised(['T4'], 'an adoption does not act after its limit', async () => {
    const { ticketId, adopter, key } = await handedOff();
    await adopter.inspect();
    await expect(adopt(ticketId, [adopter], { notAfter: clock.now() - 1_000 })).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect((await adopter.inspect()).holders).toMatchObject([{ id: ticketId }]);
    await adopted(ticketId, [adopter]);
    await stage.expectHolders(key, adopter);
    await adopter.release();
  });

  promised(['T4'], 'a hand-off does not act after its limit: a copy makes no second ticket of a used one, beside a reader who stayed', async () => {
    const key = stage.newKey();
    const [giver, adopter, second, ticketId] = [stage.contender(key), stage.contender(key), stage.contender(key), newTicket()];
    await giver.acquires({ mode: 'read' });
    const late = (): Promise<HandOffOutcome> => handOff(ticketId, [giver], WITHIN_MS, true, clock.now() - 1_000);
    await expect(late()).rejects.toMatchObject({ code: 'LOCK_STORE', retryable: true, key });
    await stage.expectHolders(key, giver);
    await handOff(ticketId, [giver], WITHIN_MS, true);
    await adopted(ticketId, [adopter]);
    await expect(late()).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect((await adopt(ticketId, [second])).kind).toBe('gone');
    for (const one of [giver, adopter]) await one.release();
  });

  promised(['T5', 'queue'], 'a ticket that nobody adopts in time passes on to who waits, and is too late then', async () => {
    const key = stage.newKey();
    const [giver, waiter, adopter, ticketId] = [stage.contender(key), stage.contender(key), stage.contender(key), newTicket()];
    await giver.acquires({ leaseMs: 30_000 });
    await waiter.queues();
    const since = clock.now();
    const given = await handOff(ticketId, [giver], SHORT_MS);
    const { fence } = await waiter.isLetIn();
    expect(clock.now() - since).toBeGreaterThanOrEqual(SHORT_MS);
    expect(clock.now() - since).toBeLessThan(SHORT_MS + stage.lateMs);
    const late = await adopt(ticketId, [adopter]);
    expect(late).toMatchObject({ kind: 'gone', key });
    if (late.kind === 'gone' && given.kind === 'handedOff') expect(late.now).toBeGreaterThan(given.until);
    expect(fence).toBeGreaterThan(0);
    await waiter.release();
  });

  promised(['T5'], 'nobody adopts a ticket whose time is over, though nobody else has come by', async () => {
    const { ticketId, adopter } = await handedOff(SHORT_MS);
    await pause(clock, SHORT_MS + 50);
    expect((await adopt(ticketId, [adopter])).kind).toBe('gone');
    await adopter.acquires();
    await adopter.release();
  });

  promised(['T3'], 'a ticket that requests which came twice have put there anew after its time is too late', async () => {
    const key = stage.newKey();
    const [giver, adopter, ticketId] = [stage.contender(key), stage.contender(key), newTicket()];
    await giver.acquires();
    const first = await handOff(ticketId, [giver], SHORT_MS);
    if (first.kind !== 'handedOff') throw new Error(`expected a hand-off, got ${JSON.stringify(first)}`);
    await pause(clock, SHORT_MS + 50);
    await giver.acquires();
    expect((await handOff(ticketId, [giver])).kind).toBe('handedOff');
    expect(await adopt(ticketId, [adopter], { ticketEnd: first.until })).toMatchObject({ kind: 'gone', key });
    expect((await adopter.inspect()).holders).toMatchObject([{ id: ticketId }]);
    await adopted(ticketId, [adopter]);
    await adopter.release();
  });

  promised(['T2', 'T5', 'minHold'], 'minHoldMs goes with the hold: the lock stays taken for it after a ticket that ended and after a release', async () => {
    const key = stage.newKey();
    const [giver, adopter, other] = [stage.contender(key), stage.contender(key), stage.contender(key)];
    const since = clock.now();
    await giver.acquires({ minHoldMs: 1_500 });
    const late = newTicket();
    await handOff(late, [giver], SHORT_MS);
    expect((await other.inspect()).holders[0]?.remainingMs).toBeLessThanOrEqual(SHORT_MS);
    await pause(clock, SHORT_MS + 50);
    await other.isRefused();
    expect((await adopt(late, [adopter])).kind).toBe('gone');
    await isOver(other);
    expect(clock.now() - since).toBeGreaterThanOrEqual(1_500);
    await other.release();

    const again = clock.now();
    await giver.acquires({ minHoldMs: 1_500 });
    const ticketId = newTicket();
    await handOff(ticketId, [giver]);
    const [hold] = await adopted(ticketId, [adopter], { leaseMs: 400 });
    expect(hold?.minHoldMs).toBeGreaterThan(0);
    expect(hold?.minHoldMs).toBeLessThanOrEqual(1_500);
    await adopter.release();
    await other.isRefused();
    await isOver(other);
    expect(clock.now() - again).toBeGreaterThanOrEqual(1_500);
    await other.release();
  });

  promised(['T2', 'queue'], 'a read hold stays one: its ticket stands beside readers, who go on under its old id or without it', async () => {
    const key = stage.newKey();
    const [giver, reader, writer, adopter, stranger] = [1, 2, 3, 4, 5].map(() => stage.contender(key)) as [Contender, Contender, Contender, Contender, Contender];
    await giver.acquires({ mode: 'read' });
    await reader.acquires({ mode: 'read' });
    await writer.queues();
    const [beside, alone] = [newTicket(), newTicket()];
    expect((await handOff(beside, [giver], WITHIN_MS, true)).kind).toBe('handedOff');
    expect((await handOff(alone, [reader])).kind).toBe('handedOff');
    expect((await giver.inspect()).holders.map(({ id }) => id).sort()).toEqual([giver.id, beside, alone].sort());
    const [hold] = await adopted(beside, [adopter]);
    expect(hold?.grant.mode).toBe('read');
    await adopted(alone, [stranger]);
    for (const one of [giver, adopter, stranger]) {
      expect((await writer.askAgain()).kind).toBe('waiting');
      await one.release();
    }
    await writer.isLetIn();
    await writer.release();
  });

  promised(['T2', 'T3', 'owner'], 'an owner goes with the hold, and its holds go on sharing a fence', async () => {
    const key = stage.newKey();
    const [giver, kin, adopter, joining] = [1, 2, 3, 4].map(() => stage.contender(key)) as [Contender, Contender, Contender, Contender];
    const { fence } = await giver.acquires({ owner: 'saga:1' });
    await kin.acquires({ owner: 'saga:1' });
    const ticketId = newTicket();
    await handOff(ticketId, [giver]);
    const [hold] = await adopted(ticketId, [adopter]);
    expect(hold).toMatchObject({ owner: 'saga:1', grant: { fence } });
    await kin.release();
    expect((await joining.acquires({ owner: 'saga:1' })).fence).toBe(fence);
    await joining.release();
    const alone = newTicket();
    await handOff(alone, [adopter]);
    const [higher] = await adopted(alone, [kin]);
    expect(higher?.grant.fence).toBeGreaterThan(fence);
    await kin.release();
  });

  promised(['T2', 'T3', 'permits'], 'a permit goes with its hold, and nobody gets one more than there are', async () => {
    const key = stage.newKey();
    const [giver, other, adopter, third] = [1, 2, 3, 4].map(() => stage.contender(key)) as [Contender, Contender, Contender, Contender];
    await giver.acquires({ permits: 2 });
    const { fence } = await other.acquires({ permits: 2 });
    const ticketId = newTicket();
    await handOff(ticketId, [giver]);
    expect(await other.inspect()).toMatchObject({ permits: 2, holders: [{ id: ticketId, handedOff: true }, { id: other.id }] });
    await third.isRefused({ permits: 2 });
    const [hold] = await adopted(ticketId, [adopter]);
    expect(hold).toMatchObject({ permits: 2, owner: undefined, grant: { mode: 'write' } });
    expect(hold!.grant.fence).toBeGreaterThan(fence);
    await third.isRefused({ permits: 2 });
    await adopter.renews();
    await adopter.release();
    await third.acquires({ permits: 2 });
    for (const one of [third, other]) await one.release();
  });

  promised(['T1', 'T3'], 'several locks change hands with one ticket', async () => {
    const keys = [stage.newKey(), stage.newKey(), stage.newKey()];
    // The givers are all of one process, and the adopters of the other.
    const pairs = keys.map((key) => [stage.contender(key), stage.contender(key)] as const);
    const [givers, adopters] = [pairs.map(([giver]) => giver), pairs.map(([, adopter]) => adopter)];
    for (const giver of givers) await giver.acquires();
    const ticketId = newTicket();
    expect((await handOff(ticketId, givers)).kind).toBe('handedOff');
    const holds = await adopted(ticketId, adopters);
    expect(holds).toHaveLength(3);
    for (const [n, key] of keys.entries()) await stage.expectHolders(key, adopters[n]);
    for (const adopter of adopters) await adopter.release();
  });

  promised(['forceRelease'], 'an operator takes a lock from a ticket, which is gone then', async () => {
    const { ticketId, adopter, key, fence } = await handedOff();
    expect(await stage.stores()[0].forceRelease(key, fence)).toBe(true);
    expect((await adopt(ticketId, [adopter])).kind).toBe('gone');
    await adopter.acquires();
    await adopter.release();
  });
}
