/**
 * The way between one process and one server, and the connections on it. On one connection everything arrives in order;
 * what was on its way when a connection ended may still reach the server long after, beside what came over the next one.
 */
import type { LuaReply } from './lua-interpreter.js';
import { ServerError } from './lua-values.js';
import type { Random } from './random.js';
import type { SimProcess } from './sim-process.js';
import type { SimServer } from './sim-server.js';
import type { VirtualTime } from './virtual-time.js';

/** What a nemesis does to a way. Probabilities for each message. */
export interface WayFaults {
  shortestMs: number;
  longestMs: number;
  dropsRequests: number;
  dropsReplies: number;
  dropsMessages: number;
  duplicates: number;
  /** Nothing gets through: kept until it does, or gone and the connection with it. */
  silent: 'no' | 'keeps' | 'loses';
}

/** How long what was on its way may lie in an old socket, in ms. */
const LATEST_MS = 3_000;

export class Way {
  readonly faults: WayFaults = { shortestMs: 0.2, longestMs: 2, dropsRequests: 0, dropsReplies: 0, dropsMessages: 0, duplicates: 0, silent: 'no' };
  readonly sockets = new Set<SimSocket>();

  constructor(readonly process: SimProcess, readonly server: SimServer, readonly random: Random, readonly time: VirtualTime) {}

  latency(): number {
    return this.random.between(this.faults.shortestMs, this.faults.longestMs);
  }

  /** Silence begins, or ends: what was kept goes on. */
  silence(how: WayFaults['silent']): void {
    this.faults.silent = how;
    if (how === 'no') for (const socket of this.sockets) socket.goOn();
  }

  /** Connections end on both sides. */
  cut(): void {
    for (const socket of [...this.sockets]) socket.cut(true);
  }
}

export interface SocketListener {
  replied(request: number, answer: LuaReply | ServerError): void;
  message(channel: string, text: string): void;
  closed(): void;
}

export class SimSocket {
  readonly channels = new Set<string>();
  /** It is told when all data were emptied or replaced. */
  tracksKeys = false;
  /** The next command may be served by a node to which its slot is being moved. */
  asking = false;
  /** What came behind a WAIT that is not answered yet. */
  held: (() => void)[] | undefined;
  private open = true;
  /** Bytes are missing: nothing that comes after them is ever read. */
  private broken = false;
  private kept: (() => void)[] = [];
  private readonly arrivesAt = { server: 0, process: 0 };

  constructor(private readonly way: Way, private readonly listener: SocketListener) {
    way.sockets.add(this);
    way.server.sockets.add(this);
  }

  send(request: number, command: readonly string[]): void {
    const { faults, random, server, time } = this.way;
    if (random.chance(faults.dropsRequests)) return;
    const arrive = (): void => {
      if (this.open) server.receive(command, this, (answer) => this.reply(request, answer));
      else if (random.chance(0.5)) time.after(random.between(0, LATEST_MS), () => server.receive(command, undefined, () => {}), true);
    };
    this.travel('server', arrive);
    if (random.chance(faults.duplicates)) time.after(random.between(1, LATEST_MS), () => server.receive(command, undefined, () => {}), true);
  }

  push(channel: string, text: string): void {
    const { faults, random } = this.way;
    if (!random.chance(faults.dropsMessages)) this.travel('process', () => this.open && this.listener.message(channel, text));
  }

  /** The connection ends; with `told` the process hears of it from outside. */
  cut(told: boolean): void {
    if (!this.open) return;
    const { way } = this;
    this.open = false;
    way.sockets.delete(this);
    way.server.sockets.delete(this);
    if (told) way.time.after(way.latency(), () => way.process.deliver(() => this.listener.closed()));
  }

  goOn(): void {
    for (const run of this.kept.splice(0)) run();
  }

  private reply(request: number, answer: LuaReply | ServerError): void {
    const { faults, random } = this.way;
    if (!random.chance(faults.dropsReplies)) this.travel('process', () => this.open && this.listener.replied(request, answer));
  }

  private travel(to: 'server' | 'process', arrive: () => void): void {
    const { faults, process, time } = this.way;
    if (faults.silent === 'keeps') return void this.kept.push(() => this.travel(to, arrive));
    if (faults.silent === 'loses') this.broken = true;
    if (this.broken) return;
    this.arrivesAt[to] = Math.max(this.arrivesAt[to], time.now + this.way.latency());
    time.after(this.arrivesAt[to] - time.now, () => (to === 'server' ? arrive() : process.deliver(arrive)), to === 'server');
  }
}
