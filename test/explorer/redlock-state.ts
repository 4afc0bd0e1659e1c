/**
 * The state of a small world of three independent masters. What concerns one node stands together (what it remembers, what each
 * process knows of it, what is on its way): worlds that differ in the order of the nodes alone are the same.
 */
import type { BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import { canonicalText, PROCESS_BEGINS_AT, SERVER_BEGINS_AT } from './canonical.js';
import { textOf, type ServerMemory } from './small-server.js';

/** A vote for a grant, as ballot.ts keeps it. */
export interface Granted {
  readonly fence: number;
  readonly end: number;
}

export type NodeQuestion = 'vote' | 'withdrawal' | 'raise fence' | 'recall' | 'recall of others' | 'admit';

export interface NodeLetter {
  readonly way: 'request' | 'answer';
  readonly of: number;
  readonly stray: boolean;
  readonly what: NodeQuestion;
  /** The ballot, or the number of the node that is brought back. */
  readonly about: string;
  readonly sentAt: number;
  readonly call?: BuiltCall;
  readonly reply?: readonly (string | number)[];
}

/** A ballot that has to be taken back from a node. */
export interface Withdrawal {
  readonly ballot: string;
  readonly lateUntil: number;
  readonly until: number;
  readonly sentAt: number;
  readonly isSent: boolean;
}

/** How a process brings back a node that forgot: see recovery.ts. */
export type Attention =
  | { readonly kind: 'none' | 'recalling' | 'admitting' }
  | { readonly kind: 'wanted'; readonly at: number }
  | { readonly kind: 'asking others'; readonly since: number; readonly awaited: number; readonly whole: number; readonly out: number; readonly floor: number };

/** What a process knows of one node. */
export interface Known {
  readonly vote: Granted | 'against' | 'failed' | undefined;
  /** Whether the node may have the open or held ballot. */
  readonly asked: boolean;
  /** Until when a vote request may act that the node did not answer. */
  readonly mute: number;
  /** Whether the fence of the ballot was written back here. */
  readonly raised: 'no' | 'sent' | 'yes' | 'failed';
  readonly withdrawals: readonly Withdrawal[];
  readonly attention: Attention;
}

export interface Node {
  readonly memory: ServerMemory;
  readonly letters: readonly NodeLetter[];
  /** By process. */
  readonly known: readonly Known[];
}

export interface Ballot {
  readonly id: string;
  readonly limit: number;
  readonly fence: number;
  readonly proposal: number;
}

export interface Member {
  readonly name: string;
  readonly task: number;
  readonly attempts: number;
  /** When it asked for votes last. */
  readonly castAt: number;
  readonly floor: number;
  readonly ballot: Ballot | undefined;
  /** The lease, once the ballot has won. */
  readonly trustedUntil: number | undefined;
}

export type NodeFault = 'slow' | 'late' | 'silence' | 'flush' | 'empty restart';

export interface NodesState {
  now: number;
  ticks: number;
  faults: Partial<Record<NodeFault, number>>;
  nodes: Node[];
  members: Member[];
  highest: number;
  broken: string | undefined;
}

export function draftOf(state: NodesState): NodesState {
  return { ...state, faults: { ...state.faults }, nodes: [...state.nodes], members: [...state.members] };
}

export function changeNode(draft: NodesState, node: number, change: Partial<Node>): void {
  draft.nodes[node] = { ...draft.nodes[node]!, ...change };
}

export function changeKnown(draft: NodesState, node: number, at: number, change: Partial<Known>): void {
  changeNode(draft, node, { known: draft.nodes[node]!.known.map((known, n) => (n === at ? { ...known, ...change } : known)) });
}

export function changeMember(draft: NodesState, at: number, change: Partial<Member>): void {
  draft.members[at] = { ...draft.members[at]!, ...change };
}

/** `skewsMs`: how far the wall clocks of the processes are off. */
export function canonicalOf(state: NodesState, skewsMs: readonly number[]): string {
  const { now, ticks, faults, members, nodes, highest } = state;
  const walls = skewsMs.map((skewMs) => wallFence(now, skewMs));
  const columns = nodes.map((node) => nodeText(node, PROCESS_BEGINS_AT + now));
  // A recall of others is about another node, which it names by its number.
  if (!columns.some((column) => column.includes('recall of others'))) columns.sort();
  return canonicalText(JSON.stringify([now, ticks, Object.values(faults), members.map((member) => ({ ...member, castAt: member.castAt === PROCESS_BEGINS_AT + now })), highest, walls]) + columns.join('|'), now);
}

/** The fence that a process proposes by its own clock. */
export function wallFence(now: number, skewMs: number): number {
  return (SERVER_BEGINS_AT + now + skewMs) * 1_000;
}

const texts = new WeakMap<Node, { readonly now: number; readonly text: string }>();

function nodeText(node: Node, now: number): string {
  const before = texts.get(node);
  if (before?.now === now) return before.text;
  const ahead = (instant: number): number => (instant < now ? 0 : instant);
  const known = node.known.map(({ withdrawals, mute, ...rest }) => [
    rest, ahead(mute), withdrawals.map((one) => ({ ...one, lateUntil: ahead(one.lateUntil), until: ahead(one.until), sentAt: ahead(one.sentAt) })),
  ]);
  const letters = node.letters.map(({ call, ...letter }): [string, string] => [`${letter.stray ? 'z' : letter.of}${letter.way}`, JSON.stringify([letter, call?.args])]);
  const ordered = letters.sort(([one, its], [other, theirs]) => (one < other || (one === other && one.startsWith('z') && its < theirs) ? -1 : one === other ? 0 : 1));
  const text = `${textOf(node.memory)} ${JSON.stringify(known)} ${ordered.map(([, letter]) => letter).join()}`;
  texts.set(node, { now, text });
  return text;
}
