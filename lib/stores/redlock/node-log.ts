/** The log lines about nodes of a Redlock: that they stop and resume serving, and that they do not remember what they granted. */
import { lasted } from '../wire/store-failure.js';
import type { RedlockNode } from './redlock-node.js';
import type { RedlockStore } from './redlock-store.js';

/** A node does not serve: a warning. The loss of the quorum has words of its own, because no lock can be had then. */
export function tellAway(node: RedlockNode, redlock: RedlockStore, reason: string): void {
  node.isAway = true;
  const { serving, text } = servingOf(redlock);
  const [kind, next] =
    serving >= redlock.quorum
      ? ['node lost', 'which is a quorum: locks go on.']
      : ['store lost', 'which is no quorum: no lock can be granted until more of them are back, and leases end unless they can be renewed in time.'];
  const message = `Locks: the Redlock node ${node.name} does not serve: ${reason.replace(/\.$/, '')}. ${text}, ${next}`;
  redlock.options.report({ kind, level: 'warning', message });
}

export function tellBack(node: RedlockNode, redlock: RedlockStore, afterMs: number): void {
  node.isAway = false;
  const { serving, text } = servingOf(redlock);
  const [kind, next] = serving === redlock.quorum ? ['store back', ': there is a quorum again.'] : ['node back', '.'];
  const message = `Locks: the Redlock node ${node.name} serves again, after ${lasted(afterMs)}. ${text}${next}`;
  redlock.options.report({ kind, level: 'info', message });
}

/** A node may have forgotten what it granted, and grants nothing for `leftMs` at least. */
export function tellForgot({ name }: RedlockNode, { clock, nodes, quorum, options: { report } }: RedlockStore, leftMs: number): void {
  const at = new Date(clock.wallNow() + leftMs).toISOString();
  const until = leftMs > 0 ? `until ${at} (for ${lasted(leftMs)}), when all leases that it may have forgotten have ended` : 'until the last fences are told to it';
  const rest =
    nodes.filter(({ outSince }) => outSince === undefined).length >= quorum
      ? 'The other nodes are a quorum and go on.'
      : 'With it there is no quorum left, and no lock can be granted until then. If all nodes are new, and nothing was ever locked there, `npx holdfast redlock init` ends this at once.';
  report({ kind: `forgot ${name}`, level: 'warning', message: `Locks: the Redlock node ${name} is new, was restarted or flushed. It grants nothing ${until}. ${rest}` });
}

/** So many nodes may have forgotten that no quorum of others could tell the last fences to this one. */
export function tellQuorumForgot({ name }: RedlockNode, { nodes, options: { report } }: RedlockStore, forgetful: number): void {
  const message =
    `Locks: ${forgetful} of ${nodes.length} Redlock nodes do not remember what they granted, as after a first installation: ` +
    `the fences of ${name} start from the clock and from what the other nodes and the running processes have seen.`;
  report({ kind: 'fences from clocks', level: 'warning', message });
}

function servingOf({ nodes }: RedlockStore): { readonly serving: number; readonly text: string } {
  const serving = nodes.filter(({ isAway }) => !isAway).length;
  return { serving, text: `${serving} of ${nodes.length} nodes serve` };
}
