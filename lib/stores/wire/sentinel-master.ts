/**
 * The master that Sentinels name. They are asked for it before each connection, one after another, each over a connection of its own.
 * What the packages have for this waits without end for a Sentinel that is frozen, though others would answer, or says too little of
 * what failed. Besides, each Sentinel is listened to: a master that was frozen or cut off while another took its place goes on granting
 * locks when it is back, for as long as Sentinel takes to make a replica of it, which is 8 s and more. So it is left at once.
 */
import { messageOf } from '../../core/port/errors.js';
import type { Master, Route } from './connections.js';
import { askOnce, mapped, nameOf, ServerConnection, type Address, type AddressMap, type Timing, type Source } from './server-connection.js';

/** How long a Sentinel may take to answer, in ms. It is short, because a Sentinel has little to do, and others can be asked. */
const ANSWERS_WITHIN_MS = 500;
/** About how long after a Sentinel hung up it is listened to anew, in ms. Meanwhile others are heard, and each connection asks. */
const LISTENS_AGAIN_MS = 4_000;
/** What a Sentinel says when it has begun to name another master: the first by the one that leads the failover, the second by all, later. */
const SWITCHES = ['+failover-state-reconf-slaves', '+switch-master'];

/** The route to the master of this name. The Sentinels are asked in this order at first. */
export function routeBySentinels(name: string, sentinels: readonly Address[], ofSentinels: Source, ofMaster: Source, natMap: AddressMap): Route {
  const map = mapped(natMap);
  return { node: `the master '${name}' of Sentinel`, begin };

  function begin(timing: Timing, moved: (to: Address) => void): Master {
    const listening = new Map<string, ServerConnection>();
    let isClosed = false;
    /** The one that is asked first stands first. */
    let known = sentinels;

    const source = (sentinel: Address): Source => ({ ...ofSentinels, address: map(sentinel) });

    /** Of those that users did not name, only the ones stay that the Sentinel knows and can reach: an address may be given up for good. */
    function first(sentinel: Address, others: readonly Address[] = known): void {
      const byName = new Map([sentinel, ...sentinels, ...others].map((address) => [nameOf(address), address]));
      known = [...byName.values()];
      for (const [heard, connection] of listening) {
        if (byName.has(heard)) continue;
        connection.close();
        listening.delete(heard);
      }
    }

    const ask = (sentinel: Address): Promise<{ master: Address; others: readonly Address[] | undefined }> =>
      askOnce(source(sentinel), timing, async (sender) => {
        const asked = sender.call('sentinel', 'SENTINELS', name).catch(() => {});
        // This comes last, so that no news of another master comes between the answer and the connection to it.
        const found = await sender.call('sentinel', 'GET-MASTER-ADDR-BY-NAME', name);
        const others = await asked;
        if (!Array.isArray(found)) throw new Error(`the Sentinel ${nameOf(sentinel)} does not know it`);
        return { master: { host: String(found[0]), port: Number(found[1]) }, others: (others as string[][] | undefined)?.map(addressOf).filter((other) => !other.isDown) };
      }, ANSWERS_WITHIN_MS);

    function listen(sentinel: Address): void {
      if (isClosed || listening.has(nameOf(sentinel))) return;
      const hear = (message: string): void => void (message.split(' ').includes(name) && switched(sentinel));
      const pauseMs = LISTENS_AGAIN_MS * (0.5 + Math.random());
      const connection = new ServerConnection(() => Promise.resolve(source(sentinel)), timing, { channels: SWITCHES, hear, pauseMs });
      listening.set(nameOf(sentinel), connection);
      connection.start().catch(() => {});
    }

    /** Other Sentinels may hear of it seconds later. */
    async function switched(sentinel: Address): Promise<void> {
      const told = await ask(sentinel).catch(() => undefined);
      if (told === undefined || isClosed) return;
      first(sentinel);
      moved(map(told.master));
    }

    return {
      /** The Sentinel that answered is asked first the next time, and those that it knows are asked too. */
      async locate() {
        let last: unknown;
        for (const sentinel of known) {
          try {
            const { master, others } = await ask(sentinel);
            first(sentinel, others);
            known.forEach(listen);
            return { ...ofMaster, address: map(master) };
          } catch (error) {
            last = error;
          }
        }
        throw new Error(`no Sentinel names the master '${name}'. Last error: ${messageOf(last)}`, { cause: last });
      },
      close() {
        isClosed = true;
        for (const connection of listening.values()) connection.close();
      },
    };
  }
}

/** The address of a Sentinel that is told as a list of names and values, and whether the one that tells it cannot reach it. */
function addressOf(fields: readonly string[]): Address & { readonly isDown: boolean } {
  const of = (name: string): string => fields[fields.indexOf(name) + 1]!;
  return { host: of('ip'), port: Number(of('port')), isDown: of('flags').includes('s_down') };
}
