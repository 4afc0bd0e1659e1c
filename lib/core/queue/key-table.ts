/**
 * The queues by their keys, which come and go with nearly every call: a hash table of chains, which the queues themselves make.
 *
 * Neither an object nor a Map is used, because of how V8 keeps them. An object makes a name of each new key, for which the whole
 * process has one table: that took a fifth of the library's time of an uncontended call. A Map that is full of deleted entries moves
 * to a new table, and the old one points to it: once that is in the old generation, a scavenge promotes all that is in the newer ones.
 */
import type { KeyQueue } from './key-queue.js';

const FIRST_CHAINS = 64;
const PRIME = 0x01000193;
/** Differs from process to process, so that nobody can choose keys that make one long chain. */
const START = Math.floor(Math.random() * 2 ** 32);

export class KeyTable {
  /** A power of two of them, as many as there ever were queues. */
  private chains: (KeyQueue | undefined)[] = chainsOf(FIRST_CHAINS);
  /** How many queues there are. Only the table itself writes it. */
  size = 0;

  /** `hash`: that of the key. */
  get(key: string, hash = hashOf(key)): KeyQueue | undefined {
    let queue = this.chains[hash & (this.chains.length - 1)];
    while (queue !== undefined && queue.key !== key) queue = queue.chained;
    return queue;
  }

  /** Adds a queue whose key, with this hash, is not in the table, and returns it. */
  add(queue: KeyQueue, hash = hashOf(queue.key)): KeyQueue {
    if (this.size === this.chains.length) this.spread();
    this.size += 1;
    queue.hash = hash;
    const at = queue.hash & (this.chains.length - 1);
    queue.chained = this.chains[at];
    this.chains[at] = queue;
    return queue;
  }

  /** Removes the queue, if it is in the table. */
  remove(queue: KeyQueue): void {
    const { chains } = this;
    const at = queue.hash & (chains.length - 1);
    const { chained } = queue;
    if (chains[at] === queue) chains[at] = chained;
    else {
      let before = chains[at];
      while (before !== undefined && before.chained !== queue) before = before.chained;
      if (before === undefined) return;
      before.chained = chained;
    }
    this.size -= 1;
  }

  /** A copy of the queues: they may come and go while it is walked over. */
  all(): KeyQueue[] {
    const all: KeyQueue[] = [];
    for (let queue of this.chains) for (; queue !== undefined; queue = queue.chained) all.push(queue);
    return all;
  }

  private spread(): void {
    const all = this.all();
    this.chains = chainsOf(2 * all.length);
    this.size = 0;
    for (const queue of all) this.add(queue, queue.hash);
  }
}

function chainsOf(count: number): (KeyQueue | undefined)[] {
  return new Array<KeyQueue | undefined>(count).fill(undefined);
}

/** FNV-1a of its UTF-16. */
export function hashOf(key: string): number {
  let hash = START;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), PRIME);
  return hash ^ (hash >>> 15);
}
