/**
 * A small world of one Redis: two or three processes that want one lock, and whatever may happen to them and to what is on its
 * way between them and the server. The server's scripts are those that are shipped.
 *
 * A process that stops is one that takes no step for as long as one likes, while time goes on; so that needs no event of its own.
 */
import { readBringBack, readRecall, recallCall } from '../../lib/stores/wire/lua.generated.js';
import { isTicketId } from '../../lib/core/port/ticket.js';
import { UNKNOWN_MEMORY } from '../../lib/stores/wire/redis-keys.js';
import type { LuaReply } from '../simulation/lua-interpreter.js';
import { readHolders } from '../simulation/record-check.js';
import { PROCESS_BEGINS_AT } from './canonical.js';
import { healedAtLast, suffering, type HealingWorld, type Kind, type KindStep } from './healing.js';
import { brokenByScript } from './record-promises.js';
import { Acting, AHEAD, KEYS, type Rules } from './redis-client.js';
import './redis-answers.js';
import { adopt, askToAdopt, askToHandOff, giveUpAdoption, handOff } from './redis-tickets.js';
import { canonicalOf, draftOf, localNow, type Client, type Fault, type Letter, type State } from './redis-state.js';
import { EMPTY, SmallServer, viewOf, type LuaDefect } from './small-server.js';

export interface RedisPlan extends Rules {
  readonly name: string;
  /** How often time goes on, and by how much. */
  readonly ticks: number;
  readonly tickMs: number;
  readonly faults: Partial<Record<Fault, number>>;
  /** What may be held up, lost or doubled; everything, when it is left out. */
  readonly suffers?: readonly Letter['what'][];
  /** Holders renew. */
  readonly renews?: boolean;
  /** Small enough for every run of `.ci/run`, and of `npm test` too unless it is longer. */
  readonly isQuick?: boolean;
  readonly isLonger?: boolean;
}

/** As the number of a process, where a step changes none. */
const NOBODY = -1;

/** So long what was sent may lie in an old socket, in ms, as in the simulation. */
const STRAY_MS = 3_000;

/** The longest expiry of a key that nobody writes any more, in ms. */
const GONE_AFTER_MS = 10_000;

type RedisStep = KindStep<State>;

export class RedisWorld implements HealingWorld<State> {
  readonly name: string;
  readonly server: SmallServer;

  constructor(readonly plan: RedisPlan, lua?: LuaDefect) {
    this.name = plan.name;
    this.server = new SmallServer(lua);
  }

  begin(): State {
    const { memory, reply } = this.server.run(EMPTY, recallCall({ keys: [{ fenceKey: KEYS.fenceKey }] }, { process: 'p', recoveryMs: 0, groups: [{ floor: 0, holds: false }] }), 0, () => false);
    const known = readRecall(reply).groups[0]!.memory;
    const clients = this.plan.tasks.map((_, at): Client => ({
      name: 'abc'[at]!, alive: true, task: 0, seq: 0, floor: 0, sample: { sentAt: PROCESS_BEGINS_AT, receivedAt: PROCESS_BEGINS_AT, serverNow: PROCESS_BEGINS_AT },
      known, last: known, recall: 'no', request: undefined, held: undefined, leaving: undefined, remembered: [], handing: undefined, adopting: undefined, owed: [], cancelled: [],
    }));
    return { now: 0, ticks: this.plan.ticks, faults: this.plan.faults, memory, clients, letters: [], replica: undefined, ticket: undefined, fences: { any: 0, write: 0 }, line: [], broken: undefined };
  }

  canonical(state: State): string {
    return canonicalOf(state);
  }

  broken(state: State): string | undefined {
    if (state.broken !== undefined) return state.broken;
    const now = localNow(state);
    const trusting = state.clients.filter(({ alive, held }) => alive && held !== undefined && held.trustedUntil > now);
    for (const [n, one] of trusting.entries()) {
      for (const other of trusting.slice(n + 1)) {
        const [mine, its] = [one, other].map((client) => this.taskOf(state, client));
        if (mine?.mode === 'read' && its?.mode === 'read') continue;
        if (mine?.permits !== undefined && trusting.length <= mine.permits) continue;
        if (mine?.owner !== undefined && mine.owner === its?.owner) continue;
        return `S1: ${one.name} and ${other.name} both trust the lock`;
      }
    }
    return undefined;
  }

  brokenInTheEnd(state: State): string | undefined {
    return healedAtLast(this, state);
  }

  healed(state: State, forMs: number): State {
    return { ...state, ticks: Math.ceil(forMs / this.plan.tickMs), faults: {}, letters: state.letters.filter(({ stray }) => !stray) };
  }

  unserved({ clients }: State): readonly string[] {
    const wants = (client: Client, at: number): boolean => client.alive && (client.task < (this.plan.tasks[at]?.length ?? 0) || isBusy(client) || client.owed.length > 0);
    return clients.filter(wants).map(({ name }) => name);
  }

  /**
   * Of a lock that nobody has or wants no holder counts any more, but those who died; and its keys expire by themselves. A request
   * that was answered and arrives a second time after its release may take the lock once more, for one lease (S5). A ticket that nobody
   * brings has the lock until its end.
   */
  leftBehind({ memory, now, clients }: State): string | undefined {
    const { faults, leaseMs } = this.plan;
    const soon = viewOf(memory, now + (faults.twice === undefined ? 0 : leaseMs + 1), () => true);
    const later = viewOf(memory, now + GONE_AFTER_MS, () => true);
    const live = clients.every(({ alive }) => alive) ? readHolders(soon.text(KEYS.lockKey) ?? '').filter(({ id, end }) => end >= soon.nowMs() && !isTicketId(id)) : [];
    if (live.length > 0) return 'L6: the lock stays taken although everybody has released it';
    const left = [KEYS.lockKey, KEYS.queueKey].filter((key) => later.text(key) !== undefined || later.hash(key) !== undefined);
    return left.length === 0 ? undefined : `L6: ${left.join(' and ')} is left behind`;
  }

  steps(state: State): RedisStep[] {
    return [...this.arrivals(state), ...this.acts(state), ...this.time(state), ...this.happenings(state)];
  }

  *arrivals(state: State): Generator<RedisStep> {
    const met = new Set<string>();
    for (const [n, letter] of state.letters.entries()) {
      const { way, of, stray, what, id } = letter;
      const queue = `${way} ${of}`;
      if (!stray && met.has(queue)) continue;
      if (!stray) met.add(queue);
      const { name, alive } = state.clients[of]!;
      if (way === 'request') {
        yield { kind: 'arrival', what: `the server runs ${stray ? 'a late or second copy of ' : ''}${what} ${id} of ${name}`, take: () => this.serve(state, n) };
      } else if (alive) {
        const how = way === 'message' ? `the message '${letter.text}'` : letter.reply === undefined ? `that ${what} ${id} failed` : `the answer of ${what} ${id}`;
        yield { kind: 'arrival', what: `${name} hears ${how}`, take: () => this.act(state, of, (acting) => acting.hear(letter), n) };
      }
    }
  }

  /** What the processes may do by themselves. */
  *acts(state: State): Generator<RedisStep> {
    const now = localNow(state);
    for (const [at, client] of state.clients.entries()) {
      const { alive, name, request, held, handing, adopting, owed, recall } = client;
      if (!alive) continue;
      const step = (kind: Kind, what: string, act: (acting: Acting) => void): RedisStep => ({ kind, what: `${name} ${what}`, take: () => this.act(state, at, act) });
      const task = this.plan.tasks[at]?.[client.task];
      if (recall === 'wanted') yield step('question', 'asks for the memory', (acting) => acting.recall());
      for (const one of owed) {
        if (!one.isSent && one.sentAt < now) yield step('question', `releases ${one.id} in the background`, (acting) => acting.owe(one.id, one.lateUntil));
      }
      if (task !== undefined && !isBusy(client)) {
        if (!task.adopts) yield step('question', 'asks for the lock', (acting) => acting.begin());
        else if (state.ticket !== undefined) yield step('question', 'brings the ticket', (acting) => adopt(acting, state.ticket!));
        else if (!this.mayHandOff(state)) yield step('question', 'has no ticket to bring', (acting) => (acting.client.task += 1));
      }
      if (handing !== undefined && !handing.asking && handing.askAt <= now) yield step('question', 'asks for the hand-off again', (acting) => askToHandOff(acting, acting.client.handing!));
      if (adopting !== undefined) {
        const { asking, askAt } = adopting;
        if (!asking && askAt !== undefined && askAt <= now) yield step('question', 'brings the ticket again', (acting) => askToAdopt(acting, acting.client.adopting!));
        if (task?.givesUp) yield step('choice', 'gives up', (acting) => giveUpAdoption(acting, acting.client.adopting!));
      }
      if (request !== undefined) {
        const { asking, askAt, hasPlace, askedAt, lengthens } = request;
        const isDue = (askAt !== undefined && askAt <= now) || (hasPlace && askedAt < now);
        if (!asking && lengthens === undefined && isDue) yield step('question', 'asks again', (acting) => acting.ask());
        if (task?.givesUp) yield step('choice', 'gives up', (acting) => acting.giveUp());
      }
      if (held === undefined || handing !== undefined) continue;
      yield* this.holding(state, at, client, step);
    }
  }

  private *holding(state: State, at: number, { held, task }: Client, step: (kind: Kind, what: string, act: (acting: Acting) => void) => RedisStep): Generator<RedisStep> {
    const now = localNow(state);
    const next = this.plan.tasks[at]?.[task + 1];
    if (next?.replaces) {
      yield step('release', 'gives the lock to others and asks for it in one script', (acting) => {
        acting.client.task += 1;
        acting.begin();
      });
    } else {
      if (this.plan.tasks[at]?.[task]?.handsOff && !held!.isShared) yield step('release', 'hands its hold to a ticket', handOff);
      yield step('release', 'releases', (acting) => acting.leave());
    }
    if (this.plan.renews && held!.trustedUntil > now && !held!.renewing && held!.renewedAt < now) yield step('choice', 'renews', (acting) => acting.renew());
  }

  /** Time passes beside what is on its way only as often as the plan allows: a tick is long for a message. */
  private *time(state: State): Generator<RedisStep> {
    if (state.ticks === 0) return;
    const isSlow = state.letters.some(({ stray }) => !stray);
    const { slow = 0 } = state.faults;
    if (isSlow && slow === 0) return;
    const take = (): State => {
      const draft = draftOf(state, NOBODY);
      draft.now += this.plan.tickMs;
      draft.ticks -= 1;
      if (isSlow) draft.faults.slow = slow - 1;
      const now = localNow(draft);
      draft.letters = draft.letters.filter(({ stray, sentAt }) => !stray || now - sentAt <= STRAY_MS);
      return draft;
    };
    yield { kind: 'time', what: `${this.plan.tickMs} ms pass${isSlow ? ' while something is on its way' : ''}`, take };
  }

  /** What the world does to those in it, as often as the plan allows. */
  private *happenings(state: State): Generator<RedisStep> {
    const may = (fault: Fault): boolean => (state.faults[fault] ?? 0) > 0;
    const step = suffering<Fault, State>(() => draftOf(state));
    for (const [n, letter] of state.letters.entries()) {
      const { way, of, stray, what, id } = letter;
      if (stray || !(this.plan.suffers ?? [what]).includes(what)) continue;
      const { name } = state.clients[of]!;
      if (way === 'request' && may('late')) {
        yield step('late', `${what} ${id} of ${name} is held up, and ${name} gives up on its answer`, (draft) => draft.letters.splice(n, 1, failed(letter), { ...letter, stray: true }));
      }
      if (way === 'request' && may('twice')) yield step('twice', `${what} ${id} of ${name} is sent twice`, (draft) => draft.letters.push({ ...letter, stray: true }));
      if (way === 'answer' && letter.reply !== undefined && may('silence')) yield step('silence', `the answer of ${what} ${id} for ${name} is lost`, (draft) => draft.letters.splice(n, 1, failed(letter)));
      if (way === 'message' && may('deaf')) yield step('deaf', `the message '${letter.text}' is lost`, (draft) => draft.letters.splice(n, 1));
    }
    for (const [at, { alive, name }] of state.clients.entries()) {
      if (alive && may('crash')) yield step('crash', `${name} dies`, (draft) => crash(draft, at));
    }
    if (may('flush')) yield step('flush', 'the server is flushed', (draft) => (draft.memory = { ...draft.memory, entries: new Map() }));
    // What it would break off in the middle has worlds of its own: answers that are lost, and requests that are held up.
    if (state.letters.some(({ stray }) => !stray)) return;
    if (may('failover')) yield step('failover', 'a replica takes over that lacks the last script', (draft) => failOver(draft));
    if (may('restart')) yield step('restart', 'the server restarts with its data', (draft) => restart(draft, true));
    if (may('empty restart')) yield step('empty restart', 'the server restarts without its data', (draft) => restart(draft, false));
  }

  private act(state: State, at: number, act: (acting: Acting) => void, letter?: number): State {
    const draft = draftOf(state, at);
    if (letter !== undefined) draft.letters.splice(letter, 1);
    act(new Acting(draft, at, this.plan));
    return draft;
  }

  private serve(state: State, n: number): State {
    const draft = draftOf(state, NOBODY);
    const [letter] = draft.letters.splice(n, 1);
    const { call, of, stray, what, id, sentAt } = letter!;
    const isHeard = (channel: string): boolean => state.clients.some(({ name, alive }) => alive && channel === `{sim}:c:${name}`);
    const { memory, reply, messages } = this.server.run(state.memory, call!, state.now, isHeard);
    draft.memory = memory;
    if (this.plan.faults.failover !== undefined) draft.replica = state.memory;
    if (!stray) draft.letters.push({ way: 'answer', of, stray, what, id, sentAt, reply: localReply(reply, localNow(state), this.plan.leaseMs) });
    for (const { channel, text } of messages) {
      for (const [at, { name, alive }] of state.clients.entries()) {
        if (!alive || (channel !== `{sim}:c:${name}` && channel !== '{sim}:c:~')) continue;
        draft.letters.push({ way: 'message', of: at, stray: false, what: 'message', id: '', sentAt: 0, text });
      }
    }
    draft.broken = brokenByScript(state, draft, isHeard, letter!, LETS_IN.has(what) && !isLate(what, reply));
    return draft;
  }

  /** Whether a process may still hand off a hold. */
  private mayHandOff({ clients }: State): boolean {
    return clients.some(({ alive, task }, at) => alive && this.plan.tasks[at]?.slice(task).some(({ handsOff }) => handsOff));
  }

  private taskOf({ clients }: State, client: Client): Rules['tasks'][number][number] | undefined {
    return this.plan.tasks[clients.indexOf(client)]?.[client.task];
  }
}

/** The scripts that let in whose turn it is. */
const LETS_IN: ReadonlySet<string> = new Set(['acquire', 'release', 'bring back', 'hand off', 'adopt']);

function isLate(what: string, reply: LuaReply): boolean {
  return Array.isArray(reply) && (((what === 'acquire' || what === 'adopt' || what === 'hand off') && reply[0] === 5) || (what === 'bring back' && readBringBack(reply).answers[0]!.kind === 'late'));
}

/** Whether it asks for the lock, has it, or gives it away. */
function isBusy({ request, held, leaving, handing, adopting }: Client): boolean {
  return Boolean(request ?? held ?? leaving ?? handing ?? adopting);
}

function failed({ call: _, ...letter }: Letter): Letter {
  return { ...letter, way: 'answer', reply: undefined };
}

/** The server's instants as local ones. The answer of the commonest case, a fence alone, is written out, as bundled-acquire.ts does. */
function localReply(reply: LuaReply, now: number, leaseMs: number): (string | number)[] {
  if (typeof reply === 'string') return [1, now, reply, 1, 1, now + leaseMs, 0];
  return (Array.isArray(reply) ? reply : [reply]).map(localItem) as (string | number)[];
}

/** An item of a reply, which may be a list of answers. */
export function localItem(item: LuaReply): LuaReply {
  if (Array.isArray(item)) return item.map(localItem);
  return typeof item === 'number' && item > AHEAD && item < 10 * AHEAD ? item - AHEAD : item;
}

/** What it sent is still on its way; what was for it reaches nobody. */
function crash(draft: State, at: number): void {
  draft.clients[at] = { ...draft.clients[at]!, alive: false, request: undefined, held: undefined, leaving: undefined, remembered: [], handing: undefined, adopting: undefined, owed: [], cancelled: [], recall: 'no', sample: undefined };
  draft.letters = draft.letters.flatMap((letter) => (letter.of !== at ? [letter] : letter.way === 'request' ? [{ ...letter, stray: true }] : []));
}

/** The replica has all but the last script. */
function failOver(draft: State): void {
  const { incarnation } = draft.memory;
  draft.memory = { ...(draft.replica ?? draft.memory), incarnation };
  draft.replica = undefined;
  restart(draft, true);
}

/** Every connection ends: what was sent to the server before is lost, and every process knows nothing of it. */
function restart(draft: State, keepsData: boolean): void {
  const { entries, incarnation } = draft.memory;
  draft.memory = { entries: keepsData ? entries : new Map(), incarnation: incarnation + 1 };
  draft.letters = draft.letters.flatMap((letter) => (letter.way === 'message' || letter.stray ? [] : [failed(letter)]));
  for (const client of draft.clients) {
    if (!client.alive) continue;
    client.sample = undefined;
    client.known = UNKNOWN_MEMORY;
    client.recall = 'wanted';
    if (client.held !== undefined) client.held.renewedAt = -Infinity;
    // A subscription that begins anew makes all waiters ask.
    if (client.request !== undefined && !client.request.asking) client.request.askAt = localNow(draft);
  }
}
