/**
 * The access rule (ACL) that the server's user needs, and the errors that name what is missing.
 */
import { LockStoreError } from '../../core/port/errors.js';
import { causeOf, reasonOf } from './store-failure.js';

/** The commands that the user must be allowed. The boot probe runs each of them, and the wake channel SUBSCRIBE. PUBSUB NUMSUB can be missed. */
const COMMANDS = 'eval evalsha get set del pexpire hget hmget hset hdel hgetall time publish scan subscribe info pubsub|numsub client|setname';

/** The patterns of a slot group's number. A `*` instead would also match the keys of a prefix such as `lock:7` beside the prefix `lock`. */
const GROUPS = ['[0-9]', '[0-9][0-9]', '[0-9][0-9][0-9]'];

/** The smallest rule for a user of this prefix, as the docs print it. */
export function leastRule(prefix: string): string {
  return `${COMMANDS.split(' ').map((command) => `+${command}`).join(' ')} ${keyPatterns(prefix)} ${channelPattern(prefix)}`;
}

/** The patterns of the Redis keys of this prefix. */
function keyPatterns(prefix: string): string {
  const ofGroups = GROUPS.flatMap((group) => [`~{${prefix}:${group}}:[lmq]:*`, `~{${prefix}:${group}}:f`]);
  return [...ofGroups, `~{${prefix}}:format`].join(' ');
}

function channelPattern(prefix: string): string {
  return `&{${prefix}}:c:*`;
}

/** The error that names the missing right; undefined when `error` is not about rights. */
export function rightsError(error: unknown, node: string, prefix: string): LockStoreError | undefined {
  const reason = reasonOf(error);
  const command = /run the '([^']+)'/.exec(reason)?.[1];
  const names = /channel/i.test(reason) ? channelPattern(prefix) : keyPatterns(prefix);
  const missing = command === undefined ? names : `+${command}`;
  const least = leastRule(prefix);
  return refusal(error, node, 'locks need', missing, least.includes(missing) ? least : `${missing} ${least}`);
}

/** The error for a node of a Redlock that does not tell its user who it is: a restart of it could not be noticed. */
export function blindNodeError(node: string, prefix: string): LockStoreError {
  const error = new Error("NOPERM this user has no permissions to run the 'info' command");
  return refusal(error, node, 'a Redlock needs', '+info', leastRule(prefix))!;
}

function refusal(error: unknown, node: string, what: string, missing: string, rule: string): LockStoreError | undefined {
  const reason = reasonOf(error);
  if (!/\bNOPERM\b|ACL failure|user executing the script/i.test(reason)) return undefined;
  const message = `Locks: ${node} does not allow what ${what}; missing: ${missing}. The least rule for its user: ${rule} (the server said: ${reason})`;
  return new LockStoreError(message, { cause: causeOf(error), nodes: [{ node, reason }], retryable: false });
}
