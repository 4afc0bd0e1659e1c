/**
 * The error for a reply that no script of this version gives: something else between this process and the server has answered, or an
 * answer got lost on the way, so that every later one is taken for the answer to the command before.
 */
export class UnexpectedReplyError extends Error {
  constructor(reply: unknown) {
    super(`the server gave an answer that no script of this library gives: ${JSON.stringify(reply)}`);
  }
}

export function unexpected(reply: unknown): UnexpectedReplyError {
  return new UnexpectedReplyError(reply);
}
