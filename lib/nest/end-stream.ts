/** Ends streams that a locked method or route gave and that are refused, because otherwise each would keep its file or connection open. */
import { hasMethod, isFile } from './is-stream.js';

/** The methods that end a Node stream, a web stream, what React renders to, and an iterator. A Node stream is an iterator as well. */
const ENDS = ['destroy', 'cancel', 'abort', 'return'] as const;

/** Ends the stream in the background. The caller is told that it was refused, so nobody needs to know whether the end fails. */
export function endStream(stream: object): void {
  ended(stream).catch(() => undefined);
}

async function ended(given: object): Promise<void> {
  const stream = isFile(given) ? given.getStream() : given;
  // A file that cannot be opened says so by an event, which would end the process if nobody listened.
  if (hasMethod(stream, 'on')) stream.on('error', () => undefined);
  const end = ENDS.find((name) => hasMethod(stream, name));
  if (end !== undefined) await Reflect.apply(Reflect.get(stream, end), stream, []);
}
