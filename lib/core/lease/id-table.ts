/**
 * A table by id that lives as long as the process, and whose entries come and go with every call.
 *
 * It is an object without a prototype and not a Map, because of V8's garbage collector: each time a Map is full of deleted entries it
 * moves to a new table, to which the old one keeps a pointer. Once an old table has reached the old generation, a scavenge
 * promotes all that is in the newer ones. Under load that cost more than all the rest of a call.
 */
export class IdTable<T> {
  private readonly entries: Record<string, T> = Object.create(null) as Record<string, T>;
  private count = 0;

  get size(): number {
    return this.count;
  }

  get(id: string): T | undefined {
    return this.entries[id];
  }

  has(id: string): boolean {
    return this.entries[id] !== undefined;
  }

  set(id: string, thing: T): void {
    if (this.entries[id] === undefined) this.count += 1;
    this.entries[id] = thing;
  }

  delete(id: string): void {
    if (this.entries[id] === undefined) return;
    this.count -= 1;
    delete this.entries[id];
  }

  values(): T[] {
    return Object.values(this.entries);
  }

  ids(): string[] {
    return Object.keys(this.entries);
  }
}
