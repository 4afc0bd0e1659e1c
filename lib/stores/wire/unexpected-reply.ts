/** The error for a reply that no script of this version gives: something else between this process and the server has answered. */
export function unexpected(reply: unknown): Error {
  return new Error(`the server gave an answer that no script of this library gives: ${JSON.stringify(reply)}`);
}
