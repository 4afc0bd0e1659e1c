/** Asks for a password: on a terminal without showing it, else it is the first line of the input. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

export async function askPassword(input: NodeJS.ReadStream, prompt: NodeJS.WritableStream): Promise<string> {
  const isTerminal = input.isTTY === true;
  // On a terminal readline would print what is typed, so it is given an output that prints nothing.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  if (isTerminal) prompt.write('Password: ');
  const lines = createInterface({ input, output: nowhere, terminal: isTerminal });
  try {
    return await new Promise<string>((resolve) => {
      lines.once('line', resolve).once('close', () => resolve(''));
    });
  } finally {
    lines.close();
    if (isTerminal) prompt.write('\n');
  }
}
