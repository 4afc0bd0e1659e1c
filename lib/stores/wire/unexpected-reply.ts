/** A script answered something that it cannot: another version of it did, or something between us and the server. */
export function unexpected(reply: unknown): Error {
  return new Error(`an answer that no script of ours gives: ${JSON.stringify(reply)}`);
}
