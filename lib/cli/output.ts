/**
 * Standard output as a place that may be slow or hang up: waits until there is room, and tells when nobody reads any
 * more.
 */
import { once } from 'node:events';

export interface Output {
  /** Columns of the terminal; undefined where there is none. */
  readonly columns: number | undefined;
  readonly rows: number | undefined;
  /** Nobody reads any more (`| head`). */
  readonly hungUp: boolean;
  /** Resolves when there is room for more. */
  line(text: string): Promise<void>;
  write(text: string): Promise<void>;
}

export class StreamOutput implements Output {
  hungUp = false;

  constructor(private readonly stream: NodeJS.WriteStream) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      this.hungUp = true;
    });
  }

  get columns(): number | undefined {
    return this.stream.isTTY ? this.stream.columns : undefined;
  }

  get rows(): number | undefined {
    return this.stream.isTTY ? this.stream.rows : undefined;
  }

  line(text: string): Promise<void> {
    return this.write(`${text}\n`);
  }

  async write(text: string): Promise<void> {
    if (this.hungUp || this.stream.write(text)) return;
    const heard = new AbortController();
    const { signal } = heard;
    // A pipe that breaks meanwhile never drains.
    await Promise.race(['drain', 'close'].map((event) => once(this.stream, event, { signal }).catch(() => undefined)));
    heard.abort();
  }
}
