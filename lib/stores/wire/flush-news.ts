/**
 * The news that the data of a server were emptied or replaced while it ran (FLUSHALL, a snapshot that is loaded). A server sends it to
 * every connection that wants to be told of changes to the keys that it reads, and to one that reads no key it sends nothing else.
 */

/** The channel on which a connection is told, besides those that scripts publish on. */
export const FLUSHES = '__redis__:invalidate';

/**
 * Asks for the news on a connection that will subscribe, with a function that sends a command on it. Returns whether the server agrees: a
 * user without the right, or a proxy that does not know the command, goes without the news.
 */
export async function askForFlushes(send: (command: string, ...args: string[]) => Promise<unknown>): Promise<boolean> {
  try {
    const id = await send('CLIENT', 'ID');
    await send('CLIENT', 'TRACKING', 'ON', 'REDIRECT', String(id));
    return true;
  } catch {
    return false;
  }
}
