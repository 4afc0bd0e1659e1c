/**
 * `holdfast redlock init`: lets all nodes of a Redlock vote at once, because an operator knows that they are new. Without it
 * they grant nothing for the longest lease, for a node that is new cannot be told from one that lost its memory.
 */
import { pause, systemClock } from '../core/port/clock.js';
import { LockStoreError, type NodeFailure } from '../core/port/errors.js';
import type { RedisStore } from '../stores/redis/redis-store.js';
import { admit, recall, type Recalled } from '../stores/redlock/redlock-node.js';
import { connectTo } from '../stores/wire/connect-to.js';
import { eachGroup } from '../stores/wire/redis-keys.js';
import type { RedisTarget } from '../stores/wire/redis-target.js';
import type { Target } from './arguments.js';
import { EXIT, type ExitCode, type Terminal } from './commands.js';
import { COMMAND_TIMEOUT_MS, PAUSE_MS, reached, REACHED_WITHIN_MS } from './reached.js';
import { NodeToAsk } from './redlock-look.js';
import { serversOf } from './servers.js';

/** The longest lease that was granted: there was none. A node then admits in the millisecond after its memory was recalled. */
const NOTHING_GRANTED_MS = 0;

/** Rejects with LockStoreError when a node cannot be asked; then what it says of the other nodes is done nowhere. */
export async function initRedlock(target: Target, { out, err, json }: Pick<Terminal, 'out' | 'err' | 'json'>): Promise<ExitCode> {
  const { prefix } = target;
  const nodes = await nodesOf(await serversOf(target), prefix);
  try {
    const refusal = refusalFor(nodes, await Promise.all(nodes.map((node) => reached(() => look(node)))));
    if (refusal !== undefined) {
      await err.message(`holdfast: ${refusal}`);
      return EXIT.nothing;
    }
    const recalled = await Promise.all(nodes.map((node) => reached(() => recall(node))));
    await pause(systemClock, PAUSE_MS);
    const failed = await admitAll(nodes, recalled);
    if (failed.length > 0) throw halfWay(failed, nodes.length);
    const names = nodes.map(({ server }) => server);
    if (json) await out.line(JSON.stringify({ prefix, nodes: names, vote: true }));
    else await out.message(`${names.length} Redlock nodes vote from now on for prefix '${prefix}': ${names.join(', ')}.`);
    return EXIT.done;
  } finally {
    for (const node of nodes) await node.close();
  }
}

async function nodesOf(servers: readonly RedisTarget[], prefix: string): Promise<RedisStore[]> {
  const connects = await Promise.all(servers.map((server) => connectTo(server)));
  const times = { maxLeaseMs: NOTHING_GRANTED_MS, bootTimeoutMs: REACHED_WITHIN_MS, commandTimeoutMs: COMMAND_TIMEOUT_MS };
  const options = { process: 'holdfast', prefix, ...times, clock: systemClock, report: () => {} };
  return connects.map((connect) => new NodeToAsk(connect, options).store);
}

/** What is seen of a node without changing it: which server it is, and whether it has granted anything. */
interface Seen {
  readonly runId: string | undefined;
  readonly hasVoted: boolean;
}

/** Looks at a node by reading alone. A recall would close a server that keeps locks alone, until it is let in as a node of a Redlock. */
async function look({ redis: { runner, keys } }: RedisStore): Promise<Seen> {
  const info = await runner.command<string>(['info', 'server'], '');
  const records = await Promise.all(eachGroup((group) => runner.command<string | null>(['get', keys.fence(group)], keys.fence(group))));
  return { runId: /^run_id:(\w+)/m.exec(info)?.[1], hasVoted: records.some((record) => record !== null && !record.startsWith('0')) };
}

/** Why nothing may be done; undefined when all nodes are new as far as they know. */
function refusalFor(nodes: readonly RedisStore[], seen: readonly Seen[]): string | undefined {
  const second = seen.findIndex(({ runId }, at) => seen.findIndex((other) => other.runId === runId) < at);
  if (second >= 0) {
    const first = seen.findIndex(({ runId }) => runId === seen[second]!.runId);
    return `${nodes[first]!.server} and ${nodes[second]!.server} are one server; each node must be a master of its own. Nothing was changed.`;
  }
  const used = nodes.filter((_, at) => seen[at]!.hasVoted).map(({ server }) => server);
  if (used.length === 0) return undefined;
  const who = used.length === 1 ? `${used[0]} has voted before: it` : `${used.join(', ')} have voted before: they`;
  return `${who} may have granted locks. Nothing was changed; nodes that are new or forgot vote by themselves when the longest lease has passed.`;
}

/** Names the nodes that were not let in, each with the reason. */
async function admitAll(nodes: readonly RedisStore[], recalled: readonly Recalled[]): Promise<NodeFailure[]> {
  const admitted = nodes.map(async (node, at): Promise<NodeFailure | undefined> => {
    try {
      return (await admit(node, recalled[at]!.since, NOTHING_GRANTED_MS, [])) ? undefined : { node: node.server, reason: 'it was restarted or flushed meanwhile' };
    } catch (error) {
      return { node: node.server, reason: error instanceof Error ? error.message : String(error) };
    }
  });
  return (await Promise.all(admitted)).filter((failure) => failure !== undefined);
}

function halfWay(failed: readonly NodeFailure[], nodes: number): LockStoreError {
  const reasons = failed.map(({ node, reason }) => `${node}: ${reason}`).join('; ');
  const message = `Locks: ${failed.length} of ${nodes} Redlock nodes could not be let in (${reasons}). They vote by themselves when the longest lease has passed.`;
  return new LockStoreError(message, { nodes: failed });
}
