/**
 * Writes to standard output or standard error, whose reader may be slow or go away: it waits until the stream takes more, and notes
 * when the reader has gone.
 */
import { once } from 'node:events';

export interface Output {
  /** The columns of the terminal; undefined when the output goes to no terminal. */
  readonly columns: number | undefined;
  readonly rows: number | undefined;
  /** True if the reader has gone, as `| head` does. */
  readonly hungUp: boolean;
  /** Writes a line. Resolves when the stream takes more. */
  line(text: string): Promise<void>;
  /** Writes a line for people, which may quote keys, arguments and what a server says. It stays one line, and steers no terminal. */
  message(text: string): Promise<void>;
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

  message(text: string): Promise<void> {
    return this.line(printable(text));
  }

  async write(text: string): Promise<void> {
    if (this.hungUp || this.stream.write(text)) return;
    const heard = new AbortController();
    const { signal } = heard;
    // It also waits for 'close', because a pipe that breaks meanwhile never emits 'drain'.
    await Promise.race(['drain', 'close'].map((event) => once(this.stream, event, { signal }).catch(() => undefined)));
    heard.abort();
  }
}

/** The text without characters that could steer the terminal: anybody who may write to Redis can put them into keys, labels and owners. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
