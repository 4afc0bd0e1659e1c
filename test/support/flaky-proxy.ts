/**
 * A network that a test can break: a TCP proxy between a client and a server on 127.0.0.1.
 *
 *   whole ── cut() ──> cut      connections are reset, new ones refused, until heal()
 *   whole ── freeze() ─> frozen  bytes wait in both directions, new connections hang, until thaw()
 *   whole ── hangUp() ─> hung up connections end, new ones are accepted and closed at once, until pickUp()
 *
 * freezePresent() does it to present connections alone, freezeSubscribers() to those that have subscribed, and freezeAnswers() to
 * what the others receive.
 *
 *   whole ── holdUp() ──> held up   what present connections send stays on its way
 *                           └─ loseHeldUp() ──> their clients see them end ── deliverHeldUp() ──> it arrives all the same
 */
import { createServer, connect, type Server, type Socket } from 'node:net';
import { freePort } from './free-port.js';

/** What becomes of a connection that was idle for too long: its client sees it end, or it looks alive and nothing arrives any more. */
export type IdleEnd = 'closed' | 'forgotten';

interface Link {
  readonly client: Socket;
  readonly server: Socket;
  idle: NodeJS.Timeout | undefined;
  /** It was seen to subscribe. */
  subscribed: boolean;
  /** What its client sent and the server has not got. */
  heldUp: Buffer[] | undefined;
}

export class FlakyProxy {
  private readonly links = new Set<Link>();
  private listener: Server | undefined;
  private frozen = false;
  private hungUp = false;
  private repliesDropped = false;
  private delayMs = 0;
  private idleLimit: { readonly ms: number; readonly end: IdleEnd } | undefined;
  /** How many connections it gave up because they were idle. */
  droppedAsIdle = 0;
  /** How many connections were ever made to it. */
  accepted = 0;
  /** How often a client sent something after an answer, or for the first time: over a slow network each is a wait. */
  exchanges = 0;

  constructor(private targetPort: number, readonly port: number) {}

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** How many connections are open through it. */
  get connections(): number {
    return this.links.size;
  }

  /** Resets every connection and refuses new ones. */
  async cut(): Promise<void> {
    const { listener } = this;
    this.listener = undefined;
    const closed = new Promise<void>((resolve) => (listener === undefined ? resolve() : listener.close(() => resolve())));
    this.resetConnections();
    await closed;
  }

  /** Accepts connections again, on the same port. */
  async heal(): Promise<void> {
    if (this.listener !== undefined) return;
    const listener = createServer({ pauseOnConnect: true }, (client) => this.link(client));
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject).listen(this.port, '127.0.0.1', resolve);
    });
    this.listener = listener;
  }

  /** As a proxy does whose server is away, or a server with too many clients. */
  hangUp(): void {
    this.hungUp = true;
    for (const { client } of this.links) client.destroy();
  }

  pickUp(): void {
    this.hungUp = false;
  }

  /** The connections there are now end with a reset; new ones are accepted. */
  resetConnections(): void {
    for (const { client, server } of this.links) {
      reset(client);
      server.destroy();
    }
    this.links.clear();
  }

  /** Requests reach the server, its replies are swallowed. */
  dropReplies(on: boolean): void {
    this.repliesDropped = on;
  }

  freeze(): void {
    this.frozen = true;
    for (const { client, server } of this.links) {
      client.pause();
      server.pause();
    }
  }

  /** Half-open connections: those there are look alive, and nothing arrives on them any more; new ones are well. */
  freezePresent(): void {
    this.freeze();
    this.frozen = false;
  }

  /** Half-open subscribers: their connections look alive, and nothing arrives on them any more. */
  freezeSubscribers(): void {
    for (const { client, server, subscribed } of this.links) {
      if (!subscribed) continue;
      client.pause();
      server.pause();
    }
  }

  /** Answers to commands wait, while subscribers get their messages. */
  freezeAnswers(): void {
    for (const { server, subscribed } of this.links) if (!subscribed) server.pause();
  }

  thaw(): void {
    this.frozen = false;
    for (const { client, server } of this.links) {
      client.resume();
      server.resume();
    }
  }

  /** What is sent on present connections from now on stays on its way. */
  holdUp(): void {
    for (const link of this.links) link.heldUp = [];
  }

  /** How many bytes stay on their way. */
  get bytesHeldUp(): number {
    return [...this.links].flatMap(({ heldUp }) => heldUp ?? []).reduce((sum, { length }) => sum + length, 0);
  }

  /** The clients of connections that are held up see them end; new ones are well. */
  loseHeldUp(): void {
    for (const { client, heldUp } of this.links) if (heldUp) reset(client);
  }

  /** What was held up arrives. Resolves when the server has answered. */
  async deliverHeldUp(): Promise<void> {
    const links = [...this.links].filter(({ heldUp }) => heldUp && heldUp.length > 0);
    await Promise.all(
      links.map(async ({ server, heldUp }) => {
        const answered = new Promise((resolve) => server.once('data', resolve));
        server.write(Buffer.concat(heldUp!));
        await answered;
      }),
    );
    for (const link of this.links) {
      if (!link.heldUp) continue;
      this.links.delete(link);
      link.client.destroy();
      link.server.destroy();
    }
  }

  /** Each direction is so much later from now on; the order of bytes is kept. */
  delay(ms: number): void {
    this.delayMs = ms;
  }

  /** New connections are given up when nothing passed for so long, as load balancers and address translators do. */
  dropIdleAfter(ms: number, end: IdleEnd): void {
    this.idleLimit = { ms, end };
  }

  /** New connections lead to another server, as behind an address that moves with the master; present ones stay. */
  moveTo(port: number): void {
    this.targetPort = port;
  }

  async stop(): Promise<void> {
    await this.cut();
  }

  private link(client: Socket): void {
    this.accepted += 1;
    if (this.hungUp) return void client.destroy();
    const link: Link = { client, server: connect(this.targetPort, '127.0.0.1'), subscribed: false, heldUp: undefined, idle: undefined };
    const { server } = link;
    this.links.add(link);
    this.watchIdle(link);
    const end = () => {
      clearTimeout(link.idle);
      if (link.heldUp) return; // until it is delivered
      this.links.delete(link);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end);
    let isAnswered = true;
    server.on('data', () => (isAnswered = true));
    client.on('data', () => {
      if (isAnswered) this.exchanges += 1;
      isAnswered = false;
    });
    client.on('data', (bytes) => (link.subscribed ||= /subscribe\r\n/i.test(bytes.toString('latin1'))));
    this.forward(client, server, (bytes) => link.heldUp !== undefined && link.heldUp.push(bytes) > 0);
    this.forward(server, client, () => this.repliesDropped);
    if (this.frozen) server.pause();
    else client.resume();
  }

  private watchIdle(link: Link): void {
    const { idleLimit: limit } = this;
    if (limit === undefined) return;
    const { client, server } = link;
    const drop = (): void => {
      this.droppedAsIdle += 1;
      if (limit.end === 'closed') client.destroy();
      else for (const socket of [client, server]) socket.pause();
    };
    const passed = (): void => {
      clearTimeout(link.idle);
      link.idle = setTimeout(drop, limit.ms);
    };
    for (const socket of [client, server]) socket.on('data', passed);
    passed();
  }

  /** Timers of nearly the same instant may fire in any order, bytes must not: there is one timer for each direction. */
  private forward(from: Socket, to: Socket, swallowed: (bytes: Buffer) => boolean): void {
    const underway: { readonly at: number; readonly bytes: Buffer }[] = [];
    const pass = () => {
      for (let next = underway[0]; next !== undefined; next = underway[0]) {
        const leftMs = next.at - performance.now();
        if (leftMs > 0) return void setTimeout(pass, Math.ceil(leftMs));
        to.write(next.bytes);
        underway.shift();
      }
    };
    from.on('data', (bytes) => {
      if (swallowed(bytes)) return;
      underway.push({ at: Math.max(underway.at(-1)?.at ?? 0, performance.now() + this.delayMs), bytes });
      if (underway.length === 1) pass();
    });
  }
}

/** A socket that has begun to end cannot be reset: libuv refuses it, Node leaves the handle open, and at its exit the process waits for it for ever. */
function reset(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

export async function startFlakyProxy(targetPort: number): Promise<FlakyProxy> {
  const proxy = new FlakyProxy(targetPort, await freePort());
  await proxy.heal();
  return proxy;
}
