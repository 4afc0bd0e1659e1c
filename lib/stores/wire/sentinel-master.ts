/**
 * The master that Sentinels name. They are asked for it before each connection, one after another, each over a connection of its own.
 * What the packages have for this waits without end for a Sentinel that is frozen, though others would answer, or says too little of
 * what failed. Besides, each Sentinel is listened to: a master that was frozen or cut off while another took its place goes on granting
 * locks when it is back, for as long as Sentinel takes to make a replica of it, which is 8 s and more. So it is left at once.
 */
import { messageOf } from '../../core/port/errors.js';
import { askOnce, nameOf, ServerConnection, type Address, type Needs, type Source } from './server-connection.js';

/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const ANSWERS_WITHIN_MS = 500;
/** About how long after a Sentinel hung up it is listened to anew, in ms. Meanwhile others are heard, and each connection asks. */
const LISTENS_AGAIN_MS = 4_000;
/** What a Sentinel says when it has begun to name another master: the first by the one that leads the failover, the second by all, later. */
const SWITCHES = ['+failover-state-reconf-slaves', '+switch-master'];

export class SentinelMaster {
  private readonly listening = new Map<string, ServerConnection>();
  private closed = false;

  constructor(
    private readonly name: string,
    /** The one that is asked first stands first. */
    private sentinels: readonly Address[],
    private readonly ofSentinels: Source,
    private readonly ofMaster: Source,
    private readonly map: (address: Address) => Address,
    private readonly needs: Needs,
    /** Called with the address of the master that takes the place of the present one. */
    private readonly moved: (to: Address) => void,
  ) {}

  /** The Sentinel that answered is asked first the next time, and those that it knows are asked too. */
  readonly locate = async (): Promise<Source> => {
    let last: unknown;
    for (const sentinel of this.sentinels) {
      try {
        const { master, others } = await this.ask(sentinel);
        this.first(sentinel, others);
        for (const each of this.sentinels) this.listen(each);
        return { ...this.ofMaster, address: this.map(master) };
      } catch (error) {
        last = error;
      }
    }
    throw new Error(`no Sentinel names the master '${this.name}'. Last error: ${messageOf(last)}`, { cause: last });
  };

  close(): void {
    this.closed = true;
    for (const connection of this.listening.values()) connection.close();
  }

  private source(sentinel: Address): Source {
    return { ...this.ofSentinels, address: this.map(sentinel) };
  }

  private first(sentinel: Address, others: readonly Address[] = []): void {
    this.sentinels = [...new Map([sentinel, ...this.sentinels, ...others].map((address) => [nameOf(address), address])).values()];
  }

  private ask(sentinel: Address): Promise<{ master: Address; others: readonly Address[] }> {
    return askOnce(this.source(sentinel), this.needs, async (sender) => {
      const asked = sender.call('sentinel', 'SENTINELS', this.name).catch(() => []);
      // This comes last, so that no news of another master comes between the answer and the connection to it.
      const found = await sender.call('sentinel', 'GET-MASTER-ADDR-BY-NAME', this.name);
      const others = await asked;
      if (!Array.isArray(found)) throw new Error(`the Sentinel ${nameOf(sentinel)} does not know it`);
      return { master: { host: String(found[0]), port: Number(found[1]) }, others: (others as string[][]).map(addressOf) };
    }, ANSWERS_WITHIN_MS);
  }

  private listen(sentinel: Address): void {
    const name = nameOf(sentinel);
    if (this.closed || this.listening.has(name)) return;
    const hear = (message: string): void => void (message.split(' ').includes(this.name) && this.hear(sentinel));
    const pauseMs = LISTENS_AGAIN_MS * (0.5 + Math.random());
    const connection = new ServerConnection(() => Promise.resolve(this.source(sentinel)), this.needs, { channels: SWITCHES, hear, pauseMs });
    this.listening.set(name, connection);
    connection.start().catch(() => {});
  }

  /** Other Sentinels may hear of it seconds later. */
  private async hear(sentinel: Address): Promise<void> {
    const told = await this.ask(sentinel).catch(() => undefined);
    if (told === undefined || this.closed) return;
    this.first(sentinel);
    this.moved(this.map(told.master));
  }
}

/** The address of a Sentinel that is told as a list of names and values. */
function addressOf(fields: readonly string[]): Address {
  return { host: fields[fields.indexOf('ip') + 1]!, port: Number(fields[fields.indexOf('port') + 1]) };
}
