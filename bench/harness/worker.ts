/**
 * The process of one contender: does what the benchmark tells it and answers. Each has its own, so that nobody pays for
 * another's timers, async hooks or shapes of objects.
 */
import { createHook } from 'node:async_hooks';
import { contenderNamed } from '../contenders/all.js';
import { runElements, type ElementsRun } from './elements.js';
import { giveBack, runHolding, type Holding } from './holding.js';
import { runLoop, STUCK_MS, orStuck, type Loop } from './loop.js';
import { runTurns, type TurnsRun } from './turns.js';

export type Order =
  | { readonly kind: 'open' }
  | { readonly kind: 'loop'; readonly loop: Loop }
  | { readonly kind: 'turns'; readonly run: TurnsRun }
  | { readonly kind: 'hold'; readonly holding: Holding }
  | { readonly kind: 'elements'; readonly run: ElementsRun }
  | { readonly kind: 'give back' }
  | { readonly kind: 'timers' }
  | { readonly kind: 'close' };

const [entry = '', portList = '', watched] = process.argv.slice(2);
const ports = portList.split(',').map(Number);

/** Every timer that exists, also those that do not keep the process alive. Only on demand: a hook slows everything down. */
const timers = new Set<number>();
if (watched === 'timers') {
  createHook({
    init: (id, type) => void (type === 'Timeout' && timers.add(id)),
    destroy: (id) => void timers.delete(id),
  }).enable();
}

const lock = await contenderNamed(entry).open(ports[0]!, ports);

async function obey(order: Order): Promise<unknown> {
  switch (order.kind) {
    case 'open':
      return undefined;
    case 'loop':
      return runLoop(lock, order.loop);
    case 'turns':
      return runTurns(lock, order.run);
    case 'hold':
      return runHolding(lock, order.holding);
    case 'elements':
      return runElements(lock, order.run);
    case 'give back':
      return giveBack();
    case 'timers':
      return timers.size;
    case 'close':
      return orStuck(lock.close(), STUCK_MS);
  }
}

process.on('message', (order: Order) => {
  void obey(order).then(
    (answer) => process.send!({ answer }, () => order.kind === 'close' && process.exit(0)),
    (error: Error) => process.send!({ error: error.stack ?? String(error) }),
  );
});
// A peer whose caller was given up on may fail long after; that is no failure of the benchmark.
process.on('unhandledRejection', (reason) => console.error(`${entry}: ${String(reason)}`));
process.on('disconnect', () => process.exit(0));
