/**
 * Asks the Sentinels of a master for its address, one after another, each over a connection of its own. The Sentinel that answered
 * is asked first the next time, and those that it knows are asked too.
 *
 * createSentinel() of node-redis is not used: it waits without end for a Sentinel that is frozen, though others would answer
 * (docs/maintainers/decisions.md).
 */
import type { Timer } from '../../../core/port/clock.js';
import { messageOf } from '../../../core/port/errors.js';
import type { Address } from '../connections.js';
import { at, type ClientSource, type SocketOptions } from './node-redis-client.js';
import { LiveConnection, type Locate, type Needs } from './node-redis-connection.js';

/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const ANSWERS_WITHIN_MS = 500;

export interface SentinelEntry {
  readonly name: string;
  readonly sentinels: readonly Address[];
  /** Makes clients of Sentinels, and of the master. */
  readonly ofSentinels: ClientSource;
  readonly ofMaster: ClientSource;
  /** The address at which a server that a Sentinel names can be reached from here. */
  map(address: Address): SocketOptions;
}

/** What it returns rejects when no Sentinel knows the master. */
export function guidedBy({ name, sentinels, ofSentinels, ofMaster, map }: SentinelEntry, needs: Needs): Locate {
  let known = sentinels;
  return async () => {
    let last: unknown;
    for (const sentinel of known) {
      try {
        const { master, others } = await ask(at(ofSentinels, map(sentinel)), name, needs);
        known = withoutDoubles([sentinel, ...known, ...others]);
        return at(ofMaster, map(master));
      } catch (error) {
        last = error;
      }
    }
    throw new Error(`no Sentinel names the master '${name}'. Last error: ${messageOf(last)}`, { cause: last });
  };
}

async function ask(sentinel: ClientSource, name: string, needs: Needs): Promise<{ master: Address; others: readonly Address[] }> {
  const live = new LiveConnection(sentinel, needs, undefined, ANSWERS_WITHIN_MS);
  let timer: Timer | undefined;
  try {
    const client = await live.open();
    timer = needs.clock.setTimer(() => live.end(), ANSWERS_WITHIN_MS);
    const found = await client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
    const { host, port } = sentinel.given.socket ?? {};
    if (!Array.isArray(found)) throw new Error(`the Sentinel ${host}:${port} does not know it`);
    const others = await client.sendCommand(['SENTINEL', 'SENTINELS', name]).catch(() => []);
    return { master: { host: String(found[0]), port: Number(found[1]) }, others: addressesIn(others) };
  } finally {
    if (timer !== undefined) needs.clock.clearTimer(timer);
    live.end();
  }
}

function withoutDoubles(known: readonly Address[]): readonly Address[] {
  return [...new Map(known.map((address) => [`${address.host}:${address.port}`, address])).values()];
}

/** Each Sentinel is told as a list of names and values. */
function addressesIn(reply: unknown): readonly Address[] {
  if (!Array.isArray(reply)) return [];
  return reply.filter(Array.isArray).flatMap((fields: unknown[]) => {
    const [host, port] = ['ip', 'port'].map((name) => fields[fields.indexOf(name) + 1]);
    return fields.includes('ip') && fields.includes('port') ? [{ host: String(host), port: Number(port) }] : [];
  });
}
