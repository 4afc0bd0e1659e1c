/**
 * Checks the server at the address of a Redlock's node before it is asked to vote: whether it can serve locks, which wire format its
 * keys have, and whether it says who it is. It also teaches the server the scripts of votes.
 */
import { nodeRightsError } from '../wire/access-rule.js';
import { probe, type Probed } from '../wire/boot-probe.js';
import { giveBackCall, greetCall, voteCall } from '../wire/lua.generated.js';
import { LONG_AGO } from '../wire/server-clock.js';
import type { ServerFacts } from '../wire/server-facts.js';
import { storeFailure } from '../wire/store-failure.js';
import { giveBackArgs, trialVote, voteArgs } from './node-calls.js';

/** Other classes read the public fields of a check; only the check itself writes them. */
export class NodeCheck {
  /** What the server said of its set-up when it was checked; undefined when the user may not ask. */
  facts: ServerFacts | undefined;
  isUnderWay = false;
  /** Whether the node has been connected and checked once. */
  passed = false;
  constructor(private readonly probed: Probed) {}

  /** Waits for a connection and checks the server. Rejects with LockStoreError. */
  async run(): Promise<void> {
    this.isUnderWay = true;
    try {
      this.facts = await probe(this.probed);
      await this.probeMemory();
      await this.teachScripts();
      this.passed = true;
    } catch (error) {
      throw storeFailure(error, { what: 'opening', key: undefined, node: this.probed.connections.node });
    } finally {
      this.isUnderWay = false;
    }
  }

  /** Claims the wire format on a node that may have lost its data: another version may have used it first. @throws LockStoreError */
  claimFormat(): Promise<void> {
    return this.probed.format.claim();
  }

  /**
   * Loads the scripts of votes and give-backs. A server that does not know a script would get its text in a second request, which
   * later requests may overtake. The vote comes after its limit and does nothing.
   */
  private async teachScripts(): Promise<void> {
    const { runner, options, keys } = this.probed;
    const on = keys.nodeSpotOf('');
    await runner.run(voteCall(on, voteArgs(trialVote('-', 1), options, 1, undefined, LONG_AGO)), () => undefined);
    await runner.run(giveBackCall(on, giveBackArgs({ id: '-' }, options.process)), () => undefined);
  }

  /** Asks the server for its run id. Only a Redlock needs it. */
  private async probeMemory(): Promise<void> {
    const { runner, connections, options, keys } = this.probed;
    try {
      await runner.run(greetCall({ epochKey: keys.epoch, fenceKeys: [] }, { maxLeaseMs: options.maxLeaseMs, floors: [] }), () => undefined);
    } catch (error) {
      throw nodeRightsError(error, connections.node, keys.prefix) ?? error;
    }
  }
}
