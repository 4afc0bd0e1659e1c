/**
 * Lets only a few commands wait for their answers at a time, for each server. A process that holds a hundred thousand leases sends
 * hundreds of commands after a new connection. Sent all at once, the last of them would wait longer than their timeout for the
 * first, and be sent again while the server still works on what nobody awaits any more.
 */
export class FewAtATime {
  /** How many commands are out, by server. An entry exists while there are any. */
  private readonly out = new Map<number, number>();
  /** What starts the commands that have to wait, by server. An entry exists while there are any. */
  private readonly waiting = new Map<number, (() => void)[]>();

  constructor(private readonly most: number) {}

  /** Runs `send` when fewer than the most are out to this server, and resolves or rejects as it does. */
  async run<T>(source: number, send: () => Promise<T>): Promise<T> {
    const out = this.out.get(source) ?? 0;
    if (out < this.most) this.out.set(source, out + 1);
    else await new Promise<void>((start) => this.lineOf(source).push(start));
    try {
      return await send();
    } finally {
      this.ended(source);
    }
  }

  private lineOf(source: number): (() => void)[] {
    let line = this.waiting.get(source);
    if (line === undefined) this.waiting.set(source, (line = []));
    return line;
  }

  /** The next command takes the place of the one that has ended. */
  private ended(source: number): void {
    const line = this.waiting.get(source);
    const next = line?.shift();
    if (line?.length === 0) this.waiting.delete(source);
    if (next !== undefined) return next();
    const out = this.out.get(source)! - 1;
    if (out === 0) this.out.delete(source);
    else this.out.set(source, out);
  }
}
