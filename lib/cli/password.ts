/** Asks for a password: on a terminal without showing it, else it is the first line of the input. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { UsageError } from './arguments.js';

/** Rejects with UsageError when the input ends before there was a line, and on a Ctrl-C, which readline takes for an end on a terminal. */
export async function askPassword(input: NodeJS.ReadStream, prompt: NodeJS.WritableStream): Promise<string> {
  const isTerminal = input.isTTY === true;
  // On a terminal readline would print what is typed, so it is given an output that prints nothing.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  if (isTerminal) prompt.write('Password: ');
  const lines = createInterface({ input, output: nowhere, terminal: isTerminal });
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve).once('close', () => reject(new UsageError('no password was given')));
    });
  } finally {
    lines.close();
    if (isTerminal) prompt.write('\n');
  }
}
