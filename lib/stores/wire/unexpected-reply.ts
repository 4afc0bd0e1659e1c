/** The error for a reply that no script of this version gives: something else between this process and the server has answered. */
export function unexpected(reply: unknown): Error {
  return new Error(`an answer that no script of ours gives: ${JSON.stringify(reply)}`);
}
