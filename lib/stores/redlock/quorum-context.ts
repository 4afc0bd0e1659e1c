/** What all questions of one Redlock to its nodes share. */
import type { Clock } from '../../core/port/clock.js';
import type { FenceFloors } from '../wire/fence-floors.js';
import type { Deadlines } from './deadlines.js';
import type { RedlockNode } from './redlock-node.js';
import type { Withdrawals } from './withdrawals.js';

export interface QuorumContext {
  readonly nodes: readonly RedlockNode[];
  /** How many of the nodes must agree. */
  readonly quorum: number;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly commandTimeoutMs: number;
  readonly floors: FenceFloors;
  readonly withdrawals: Withdrawals;
  /** Called with the time in ms that the nodes took to answer a ballot. */
  readonly answeredIn: (tookMs: number) => void;
  /** Called when a node says that it does not remember what it granted. */
  readonly forgetful: (node: RedlockNode) => void;
}
