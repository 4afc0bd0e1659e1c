/** What the servers of a store say of their set-up: whether they may evict locks, keep a file, and have replicas. */
import type { Connections } from './connections.js';
import type { ScriptRunner } from './script-runner.js';

export interface ServerFacts {
  readonly masters: number;
  /** How many replicas all masters have together. */
  readonly replicas: number;
  /** A maxmemory-policy other than noeviction that one of the masters has. */
  readonly evicting: string | undefined;
  /** How many masters have no append-only file, so that a restart brings an old state back, or none. */
  readonly withoutFile: number;
}

/** Asks every master. Undefined when the user may not run INFO. */
export async function factsOf(runner: ScriptRunner, connections: Connections): Promise<ServerFacts | undefined> {
  let told: readonly string[];
  try {
    told = await runner.command<string[]>('info', () => Promise.all(connections.masters().map((node) => node.call('info', 'default'))));
  } catch {
    return undefined;
  }
  const policies = told.map((info) => fieldOf(info, 'maxmemory_policy'));
  return {
    masters: told.length,
    replicas: told.reduce((sum, info) => sum + (Number(fieldOf(info, 'connected_slaves')) || 0), 0),
    evicting: policies.find((policy) => policy !== undefined && policy !== 'noeviction'),
    withoutFile: told.filter((info) => fieldOf(info, 'aof_enabled') === '0').length,
  };
}

function fieldOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}
