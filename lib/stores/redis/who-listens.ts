/**
 * Whether the server can tell the scripts who listens, so that a waiter whose process is gone is passed over at once. On a
 * Cluster a node knows only its own subscribers, and behind some proxies the subscriptions are on another server than the scripts.
 */
import type { Report } from '../../core/port/lock-events.js';
import type { Connections } from '../wire/connections.js';
import type { ScriptRunner } from '../wire/script-runner.js';
import { reasonOf } from '../wire/store-failure.js';

const COMMAND = 'pubsub|numsub';

/** Asks the server about this process's own channel, which it has subscribed to. Never rejects; without an answer no waiter is passed over. */
export async function canTellWhoListens(runner: ScriptRunner, connections: Connections, channel: string, report: Report): Promise<boolean> {
  if (connections.isCluster) return false;
  try {
    const [, count] = await runner.command<[string, number]>(COMMAND, (client) => client.call('pubsub', 'NUMSUB', channel));
    return count > 0;
  } catch (error) {
    report({ kind: `${COMMAND} on ${connections.node}`, level: 'warning', message: refusedText(connections.node, reasonOf(error)) });
    return false;
  }
}

function refusedText(node: string, reason: string): string {
  return (
    `Locks: ${node} does not tell who listens, so waiters whose processes died delay the next by up to 5 s, not by some milliseconds. ` +
    `Allow its user +${COMMAND} (the server said: ${reason}).`
  );
}
