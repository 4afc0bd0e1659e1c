/** The contract under contention: a crowd from two processes, of which some give up, share, or fall silent. */
import { expect } from '@jest/globals';
import { pause } from '../../lib/core/port/clock.js';
import { checkHistory } from '../model/history-checker.js';
import type { HistoryEvent } from '../model/history.js';
import type { Contender } from './contender.js';
import type { Promised, Stage } from './lock-store.contract.js';

const VISITORS = 80;

export function keepsACrowdApart(stage: Stage, promised: Promised): void {
  promised(['P1', 'P2', 'P9'], 'a crowd never holds against each other, its fences rise, and writers who queue keep their order', async () => {
    const key = stage.newKey();
    const history: HistoryEvent[] = [];
    await Promise.all(Array.from({ length: VISITORS }, (_, number) => visit(stage, stage.contender(key), number, history)));
    expect(checkHistory(history)).toEqual([]);
    expect(history.filter(({ kind }) => kind === 'granted').length).toBeGreaterThan(VISITORS / 2);
    // The silent ones have ended too, once somebody else got in.
    await stage.contender(key).getsIn().then(() => stage.stores()[0].forceRelease(key));
    expect(await stage.stores()[0].inspect(key)).toMatchObject({ mode: null, waiters: [] });
  });
}

/** One visit, with its events in the order in which they are known. */
async function visit({ clock }: Stage, visitor: Contender, number: number, history: HistoryEvent[]): Promise<void> {
  const { key, id } = visitor;
  const mode = number % 3 === 0 ? 'read' : 'write';
  const known = (): { at: number; key: string; id: string } => ({ at: clock.now(), key, id });
  const how = { mode, leaseMs: number % 10 === 4 ? 150 : 2_000 } as const;

  history.push({ ...known(), kind: 'asked', mode });
  const outcome = await visitor.ask(how);
  if (outcome.kind === 'waiting') {
    history.push({ ...known(), kind: 'queued' });
    if (number % 7 === 3) {
      history.push({ ...known(), kind: 'left' });
      await visitor.release();
      return;
    }
  }
  const { fence, fences, trustedUntil } = outcome.kind === 'granted' ? outcome.grant : await visitor.getsIn(how);
  history.push({ ...known(), kind: 'granted', mode, fence, fences, trustedUntil });
  await pause(clock, number % 4);
  // Whoever asked for a short lease says nothing any more: the lease ends by itself.
  if (how.leaseMs < 1_000) return;
  if (number % 5 === 2) {
    const renewal = await visitor.renew(how.leaseMs);
    if (renewal.kind === 'renewed') history.push({ ...known(), kind: 'renewed', trustedUntil: renewal.trustedUntil });
  }
  if (mode === 'write' && number % 6 === 1) {
    history.push({ ...known(), kind: 'downgraded' });
    await visitor.downgrade();
  }
  history.push({ ...known(), kind: 'released' });
  await visitor.release();
}
