/**
 * A simulated Redis: runs commands and scripts one by one, publishes, and goes through what a nemesis does to it. Its clock
 * drifts and can be set.
 *
 *     up ──▶ down ──▶ up          with its data, without, or as a replica that missed the last writes
 *      └───▶ frozen ──▶ up        connections stand, nothing is answered until it goes on
 */
import { createHash } from 'node:crypto';
import { FLUSHES } from '../../lib/stores/wire/server-connection.js';
import { LuaInterpreter, type LuaReply } from './lua-interpreter.js';
import { ServerError } from './lua-values.js';
import { RedisData, type Changes, type CommandContext, type Entry, type Undo } from './redis-data.js';
import type { Replication } from './replication.js';
import type { SimSocket } from './sim-socket.js';
import type { VirtualTime } from './virtual-time.js';

const lua = new LuaInterpreter();
const sha1s = new Map<string, string>();

/** As many scripts as a replica may have missed. */
const LONGEST_TAIL = 64;

/** What a script was given. */
export interface ScriptRun {
  readonly args: readonly string[];
  /** The text under its first key before it ran. */
  readonly before: string | undefined;
}

/** Told after each script that ran. */
export type ScriptWatch = (server: SimServer, keys: readonly string[], reply: LuaReply, source: string, run: ScriptRun) => void;

/** The other nodes of a Cluster, as one of them sees them. */
export interface ClusterBus {
  /** Throws the redirection of a command whose keys have to be asked for elsewhere. */
  admit(server: SimServer, keys: readonly string[], asking: boolean): void;
  /** The answer to CLUSTER SLOTS. */
  slots(server: SimServer): LuaReply;
  /** A message goes to all nodes. */
  spread(from: SimServer, channel: string, message: string): void;
}

/** What a server also answers while it loads its data. */
const WHILE_LOADING: ReadonlySet<string> = new Set(['client', 'CLIENT', 'subscribe', 'time']);
/** Commands without a key. */
const KEYLESS = new Set(['time', 'publish', 'pubsub', 'scan', 'info', 'subscribe', 'asking', 'cluster', 'CLIENT', 'client', 'WAIT']);

export class SimServer {
  state: 'up' | 'down' | 'frozen' = 'up';
  /** Answers to everything but this; empty for none. */
  loading = false;
  watch: ScriptWatch = () => {};
  /** Commands it has run, scripts counting once. */
  commands = 0;
  readonly sockets = new Set<SimSocket>();
  /** It hears nothing of the other nodes of its Cluster, nor they of it. */
  isAlone = false;
  /** The replica that it sends its writes to. */
  replication: Replication | undefined;
  /** What it knows of the other nodes, when it is one of a Cluster. */
  cluster: ClusterBus | undefined;
  private readonly data = new RedisData(() => this.runId, () => (this.cluster === undefined ? undefined : sha1Of(`node ${this.name}`)));
  private runs = 1;
  private scripts = new Map<string, string>();
  private tail: Undo[] = [];
  private stepMs = 0;
  private readonly waiting: (() => void)[] = [];
  /** The script that the present command ran. */
  private ran: string | undefined;
  /** What happens to it right after the next script of this text. */
  private next: { readonly source: string; readonly happens: () => void } | undefined;

  constructor(readonly name: string, private readonly time: VirtualTime, private readonly drift: number) {}

  get runId(): string {
    return sha1Of(`${this.name} ${this.runs}`);
  }

  nowUs(): number {
    return Math.floor((1_790_000_000_000 + this.stepMs + this.time.now * (1 + this.drift)) * 1_000);
  }

  nowMs(): number {
    return Math.floor(this.nowUs() / 1_000);
  }

  /** A command that arrived; `reply` is called when it was answered. */
  receive(command: readonly string[], socket: SimSocket | undefined, reply: (answer: LuaReply | ServerError) => void): void {
    if (this.state === 'down') return;
    if (this.state === 'frozen') return void this.waiting.push(() => this.receive(command, socket, reply));
    if (socket?.held !== undefined) return void socket.held.push(() => this.receive(command, socket, reply));
    this.commands++;
    if (command[0] === 'WAIT' && socket !== undefined) return this.await(command, socket, reply);
    try {
      reply(this.run(command, socket));
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      reply(error);
    } finally {
      const undo = this.data.takeUndo();
      if (undo.size > 0) this.replication?.send(this.data.changed(undo));
      this.tail.push(undo);
      if (this.tail.length > LONGEST_TAIL) this.tail.shift();
      if (this.next?.source === this.ran) this.happenNow();
      this.ran = undefined;
    }
  }

  /** Writes what its master wrote. */
  copies(written: Changes | undefined): void {
    if (written === undefined) this.data.clear();
    else this.data.copy(written);
  }

  /** Has the data of a master, and nothing else. */
  become(master: SimServer): void {
    this.data.become(master.data.contents());
    this.tail = [];
  }

  /** As a replica it refuses all writes. Whoever is connected is told of a change by the end of the connection. */
  takePart(as: 'master' | 'replica'): void {
    this.refuseWrites(as === 'replica' ? 'readonly' : 'nothing');
    this.cutOff();
  }

  freeze(): void {
    if (this.state === 'up') this.state = 'frozen';
  }

  thaw(): void {
    if (this.state !== 'frozen') return;
    this.state = 'up';
    for (const go of this.waiting.splice(0)) go();
  }

  /** Every connection ends; what is still on its way to it is lost. */
  stop(): void {
    this.state = 'down';
    this.waiting.length = 0;
    this.cutOff();
  }

  /** Comes back as another incarnation, with its data or without. */
  start(keepsData: boolean): void {
    if (!keepsData) this.data.clear();
    this.tail = [];
    this.runs++;
    this.scripts.clear();
    this.state = 'up';
    this.replication?.copy();
  }

  /** A replica takes over that missed the last `missed` scripts, with a clock of its own. */
  failOver(missed: number, clockSkewMs: number): void {
    for (const undo of this.tail.splice(Math.max(0, this.tail.length - missed)).reverse()) this.data.putBack(undo);
    this.stepMs += clockSkewMs;
    this.start(true);
  }

  /** All data go, and every connection stays. */
  flush(): void {
    this.data.clear();
    this.tail = [];
    this.replication?.send(undefined);
    this.tellOfFlush();
  }

  /** Lets it happen right after the next script of this text, whose answer is on its way then. Returns what lets it happen at once. */
  after({ source }: { readonly source: string }, happens: () => void): () => void {
    const next = (this.next = { source, happens });
    return () => this.happenNow(next);
  }

  private happenNow(next = this.next): void {
    if (next === undefined || next !== this.next) return;
    this.next = undefined;
    next.happens();
  }

  /** Writes a snapshot. Returns what loads it while the server runs: it stays the same server, and every connection stays. */
  snapshot(): () => void {
    const entries = new Map(this.data.contents());
    return () => {
      this.data.become(entries);
      this.tail = [];
      this.replication?.copy();
      this.tellOfFlush();
    };
  }

  forgetScripts(): void {
    this.scripts.clear();
  }

  stepClock(ms: number): void {
    this.stepMs += ms;
    this.data.collect(this.nowMs());
  }

  refuseWrites(how: RedisData['refuses']): void {
    this.data.refuses = how;
  }

  keys(): string[] {
    return this.data.keys(this.nowMs());
  }

  text(key: string): string | undefined {
    const value = this.data.peek(key, this.nowMs())?.value;
    return typeof value === 'string' ? value : undefined;
  }

  hash(key: string): ReadonlyMap<string, string> | undefined {
    const value = this.data.peek(key, this.nowMs())?.value;
    return value instanceof Map ? value : undefined;
  }

  expiryOf(key: string): number | undefined {
    return this.data.peek(key, this.nowMs())?.expiresAt;
  }

  /** Writes a value by hand, also where the server refuses what is sent to it. */
  put(key: string, value: string): void {
    const { refuses } = this.data;
    this.data.refuses = 'nothing';
    this.data.run(['SET', key, value], this.context());
    this.data.refuses = refuses;
    this.replication?.send(this.data.changed(this.data.takeUndo()));
  }

  private cutOff(): void {
    for (const socket of [...this.sockets]) socket.cut(true);
    this.sockets.clear();
  }

  /** Says how many replicas have all that was written so far, at the latest when the time of WAIT is over. Until then the connection stands still. */
  private await([, , timeoutMs]: readonly string[], socket: SimSocket, reply: (answer: LuaReply) => void): void {
    const held: (() => void)[] = (socket.held = []);
    const answer = (replicas: number): void => {
      if (socket.held !== held) return;
      socket.held = undefined;
      if (this.state === 'up') reply(replicas);
      for (const go of held) go();
    };
    const forget = this.replication?.whenAcknowledged(() => answer(1));
    this.time.after(Number(timeoutMs), () => {
      forget?.();
      answer(0);
    });
  }

  private run([name = '', ...args]: readonly string[], socket: SimSocket | undefined): LuaReply {
    if (this.loading && !WHILE_LOADING.has(name)) throw new ServerError('LOADING Redis is loading the dataset in memory');
    const asking = socket?.asking ?? false;
    if (socket !== undefined) socket.asking = name === 'asking';
    if (!KEYLESS.has(name)) this.cluster?.admit(this, keysOf(name, args), asking);
    switch (name) {
      case 'asking':
        return 'OK';
      case 'cluster':
        return this.cluster?.slots(this) ?? null;
      case 'evalsha': {
        const source = this.scripts.get(args[0] ?? '');
        if (source === undefined) throw new ServerError('NOSCRIPT No matching script. Please use EVAL.');
        return this.script(source, args);
      }
      case 'eval':
        this.scripts.set(sha1Of(args[0] ?? ''), args[0] ?? '');
        return this.script(args[0] ?? '', args);
      case 'client':
        return 'OK';
      case 'CLIENT':
        return args[0] === 'ID' ? 1 : this.track(args, socket);
      case 'subscribe':
        for (const channel of args) socket?.channels.add(channel);
        return ['subscribe', args[0] ?? '', 1];
      case 'scan':
        if (args.includes('COUNT') && Number(args[args.indexOf('COUNT') + 1]) < 1) throw new ServerError('ERR syntax error');
        return ['0', this.matching(args[args.indexOf('MATCH') + 1])];
      default:
        return this.data.run([name, ...args], this.context());
    }
  }

  private track(args: readonly string[], socket: SimSocket | undefined): LuaReply {
    if (args.join(' ') !== 'TRACKING ON REDIRECT 1') throw new ServerError(`ERR syntax error in CLIENT ${args.join(' ')}`);
    if (socket !== undefined) socket.tracksKeys = true;
    return 'OK';
  }

  private script(source: string, [, count = '0', ...rest]: readonly string[]): LuaReply {
    const keys = rest.slice(0, Number(count));
    const run = { args: rest.slice(Number(count)), before: this.text(keys[0] ?? '') };
    const context = this.context();
    const reply = lua.run(source, keys, run.args, (command) => this.data.run(command, context));
    this.ran = source;
    this.watch(this, keys, reply, source, run);
    return reply;
  }

  private matching(pattern: string | undefined): string[] {
    const glob = new RegExp(`^${(pattern ?? '*').replace(/[.+^${}()|]/g, '\\$&').replace(/(?<!\\)\*/g, '.*')}$`);
    return this.keys().filter((key) => glob.test(key));
  }

  private context(): CommandContext {
    return {
      nowUs: this.nowUs(),
      dirty: false,
      publish: (channel, message) => this.publish(channel, message),
      listeners: (channel) => this.listeners(channel).length,
    };
  }

  private publish(channel: string, message: string): number {
    this.cluster?.spread(this, channel, message);
    return this.tell(channel, message);
  }

  /** A message for those who listen here. Returns how many. */
  tell(channel: string, message: string): number {
    const listeners = this.listeners(channel);
    for (const socket of listeners) socket.push(channel, message);
    return listeners.length;
  }

  has(key: string): boolean {
    return this.data.peek(key, this.nowMs()) !== undefined;
  }

  /** A key goes to another server, with what is left of its time. */
  migrate(key: string, to: SimServer): void {
    const entry = this.data.peek(key, this.nowMs());
    this.store(key, undefined);
    if (entry !== undefined) to.store(key, { value: entry.value, expiresAt: to.nowMs() + entry.expiresAt - this.nowMs() });
  }

  private store(key: string, entry: Entry | undefined): void {
    const changes: Changes = new Map([[key, entry]]);
    this.data.copy(changes);
    this.replication?.send(changes);
  }

  /** Whoever tracks keys hears that all of them have changed. */
  private tellOfFlush(): void {
    for (const socket of this.listeners(FLUSHES)) if (socket.tracksKeys) socket.push(FLUSHES, '');
  }

  /** Whether a message on this channel reaches anybody. */
  isHeardOn(channel: string): boolean {
    return this.listeners(channel).length > 0;
  }

  private listeners(channel: string): SimSocket[] {
    return [...this.sockets].filter(({ channels }) => channels.has(channel));
  }
}

function keysOf(name: string, args: readonly string[]): readonly string[] {
  return name === 'eval' || name === 'evalsha' ? args.slice(2, 2 + Number(args[1])) : args.slice(0, 1);
}

function sha1Of(source: string): string {
  const known = sha1s.get(source);
  if (known !== undefined) return known;
  const sha1 = createHash('sha1').update(source).digest('hex');
  sha1s.set(source, sha1);
  return sha1;
}
