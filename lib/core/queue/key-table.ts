/**
 * A table by key whose entries come and go with nearly every call: a hash table of chains, which the entries themselves make.
 *
 * Neither an object nor a Map is used, because of how V8 keeps them. An object makes a name of each new key, for which the whole
 * process has one table: that took a fifth of the library's time of an uncontended call. A Map that is full of deleted entries moves
 * to a new table, and the old one points to it: once that is in the old generation, a scavenge promotes all that is in the newer ones.
 */

/** What stands in a table. Only the table writes `hash` and `chained`. */
export interface Entry<T> {
  readonly key: string;
  /** Which chain it is in, by the low bits of this number. */
  hash: number;
  /** The next entry of the same chain. */
  chained: T | undefined;
}

const FIRST_CHAINS = 64;
const PRIME = 0x01000193;
/** Differs from process to process, so that nobody can choose keys that make one long chain. */
const START = Math.floor(Math.random() * 2 ** 32);

export class KeyTable<T extends Entry<T>> {
  /** A power of two of them, as many as there ever were entries. */
  private chains: (T | undefined)[] = chainsOf(FIRST_CHAINS);
  /** How many entries there are. Only the table itself writes it. */
  size = 0;

  /** `hash`: that of the key. */
  get(key: string, hash = hashOf(key)): T | undefined {
    let entry = this.chains[hash & (this.chains.length - 1)];
    while (entry !== undefined && entry.key !== key) entry = entry.chained;
    return entry;
  }

  /** Adds an entry whose key, with this hash, is not in the table, and returns it. */
  add(entry: T, hash = hashOf(entry.key)): T {
    if (this.size === this.chains.length) this.spread();
    this.size += 1;
    entry.hash = hash;
    const at = entry.hash & (this.chains.length - 1);
    entry.chained = this.chains[at];
    this.chains[at] = entry;
    return entry;
  }

  /** Removes the entry, if it is in the table. */
  remove(entry: T): void {
    const { chains } = this;
    const at = entry.hash & (chains.length - 1);
    const { chained } = entry;
    if (chains[at] === entry) chains[at] = chained;
    else {
      let before = chains[at];
      while (before !== undefined && before.chained !== entry) before = before.chained;
      if (before === undefined) return;
      before.chained = chained;
    }
    this.size -= 1;
  }

  /** A copy of the entries: they may come and go while it is walked over. */
  all(): T[] {
    const all: T[] = [];
    for (let entry of this.chains) for (; entry !== undefined; entry = entry.chained) all.push(entry);
    return all;
  }

  private spread(): void {
    const all = this.all();
    this.chains = chainsOf(2 * all.length);
    this.size = 0;
    for (const entry of all) this.add(entry, entry.hash);
  }
}

function chainsOf<T>(count: number): (T | undefined)[] {
  return new Array<T | undefined>(count).fill(undefined);
}

/** FNV-1a of its UTF-16. */
export function hashOf(key: string): number {
  let hash = START;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), PRIME);
  return hash ^ (hash >>> 15);
}
