/** What vote.lua and give-back.lua are given: for the request of a ballot, and for one that only tries a node out. */
import { giveBackCall, type BuiltCall, type GiveBackArgs, type VoteArgs } from '../wire/lua.generated.js';
import { UNKNOWN_RUN_ID } from '../wire/redis-keys.js';
import { DOES_NOT_WAIT, NO_MARK, type Leaving, type VoteRequest } from './node-vote.js';

/** What a node is told with each vote of the process that asks for it. */
export interface Voter {
  readonly process: string;
  readonly maxLeaseMs: number;
}

/** `runId`: of the server, if it told on this connection; `notAfter`: in the time of the server. */
export function voteArgs(request: TrialRequest, { process, maxLeaseMs }: Voter, proposal: number, runId: string | undefined, notAfter: number): VoteArgs {
  const { id, mode, leaseMs, fences, label, owner, minHoldMs, graceMs, patienceMs } = request;
  const plain = fences === 1 && minHoldMs === 0 && graceMs === 0;
  const waitedMs = Math.floor(request.waitedMs);
  return { id, leaseMs, mode, plain, notAfter, proposal, runId: runId ?? UNKNOWN_RUN_ID, fences, minHoldMs, graceMs, maxLeaseMs, waitedMs, patienceMs, process, owner, label };
}

export function giveBackArgs({ id, mayBeOver = false, abandoned = false, next, mark }: Omit<Leaving, 'on'>, process: string): GiveBackArgs {
  const { mode, waitedMs, patienceMs } = mark ?? NO_MARK;
  return { id, keepsMarks: mark === undefined, mayBeOver, abandoned, mode, waitedMs: Math.floor(waitedMs), patienceMs, process, next };
}

/** What every node is sent when this process takes a ballot back. */
export function leavingCall(leaving: Leaving, process: string): BuiltCall {
  return giveBackCall(leaving.on, giveBackArgs(leaving, process));
}

/** A request about no lock that anybody else can name. */
type TrialRequest = Omit<VoteRequest, 'on'>;

export function trialVote(id: string, leaseMs: number): TrialRequest {
  return { id, leaseMs, mode: 'write', fences: 1, minHoldMs: 0, graceMs: 0, owner: undefined, label: undefined, waitedMs: DOES_NOT_WAIT, patienceMs: 0 };
}
