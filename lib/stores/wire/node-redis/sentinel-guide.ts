/**
 * Asks the Sentinels of a master for its address, one after another, each over a connection of its own. The Sentinel that answered
 * is asked first the next time, and those that it knows are asked too.
 */
import { messageOf } from '../../../core/port/errors.js';
import type { Address } from '../connections.js';
import { LiveConnection } from './live-connection.js';
import { at, type ClientSource, type SocketOptions } from './node-redis-client.js';
import type { Needs } from './single-connection.js';

/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const ANSWERS_WITHIN_MS = 500;

export interface SentinelTarget {
  readonly name: string;
  readonly sentinels: readonly Address[];
  /** Makes clients of Sentinels, and of the master. */
  readonly ofSentinels: ClientSource;
  readonly ofMaster: ClientSource;
  /** The address at which a server that a Sentinel names can be reached from here. */
  map(address: Address): SocketOptions;
}

export class SentinelGuide {
  private sentinels: Address[];

  constructor(
    private readonly target: SentinelTarget,
    private readonly needs: Needs,
  ) {
    this.sentinels = [...target.sentinels];
  }

  /** Rejects when no Sentinel knows the master. */
  async locate(): Promise<ClientSource> {
    let last: unknown;
    for (const sentinel of [...this.sentinels]) {
      try {
        const master = await this.ask(sentinel);
        return at(this.target.ofMaster, this.target.map(master));
      } catch (error) {
        last = error;
      }
    }
    throw new Error(`no Sentinel names the master '${this.target.name}'. Last error: ${messageOf(last)}`, { cause: last });
  }

  private async ask(sentinel: Address): Promise<Address> {
    const { clock, timeoutMs } = this.needs;
    const { ofSentinels, name, map } = this.target;
    const live = new LiveConnection(at(ofSentinels, map(sentinel)), Math.min(timeoutMs, ANSWERS_WITHIN_MS), clock);
    const timer = clock.setTimer(() => live.end(new Error('connect ETIMEDOUT')), 2 * ANSWERS_WITHIN_MS);
    try {
      await live.open();
      const found = await live.client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
      if (!Array.isArray(found)) throw new Error(`the Sentinel ${sentinel.host}:${sentinel.port} does not know it`);
      const others = await live.client.sendCommand(['SENTINEL', 'SENTINELS', name]).catch(() => []);
      this.learn(sentinel, addressesIn(others));
      return { host: String(found[0]), port: Number(found[1]) };
    } finally {
      clock.clearTimer(timer);
      live.end();
    }
  }

  private learn(answered: Address, others: readonly Address[]): void {
    const known = [answered, ...this.sentinels, ...others];
    const names = known.map(({ host, port }) => `${host}:${port}`);
    this.sentinels = known.filter((_, n) => names.indexOf(names[n]!) === n);
  }
}

/** Each Sentinel is told as a list of names and values. */
function addressesIn(reply: unknown): readonly Address[] {
  if (!Array.isArray(reply)) return [];
  return reply.filter(Array.isArray).flatMap((fields: unknown[]) => {
    const [host, port] = ['ip', 'port'].map((name) => fields[fields.indexOf(name) + 1]);
    return fields.includes('ip') && fields.includes('port') ? [{ host: String(host), port: Number(port) }] : [];
  });
}
