/**
 * The connections to the masters of a Cluster, one to each. A command goes to the master of its key's slot, and follows where the
 * nodes redirect it. The slots are read anew after a redirection and when a node is lost.
 *
 * A command that was not sent, because its node is only being connected, waits for it for a short time. One that was sent fails with
 * its connection, and is not sent again.
 */
import { EventEmitter } from 'node:events';
import { delay } from '../../../core/port/clock.js';
import type { Address, Connection, ConnectionState, EvalAndWait, Sender } from '../connections.js';
import { redirectionOf } from '../redirection.js';
import { NOT_CONNECTED, reasonOf } from '../store-failure.js';
import { slotOf } from '../key-slot.js';
import { at, type ClientSource } from './node-redis-client.js';
import { Silence } from './silence.js';
import type { Needs } from './single-connection.js';
import { SingleConnection } from './single-connection.js';
import { ClusterMap, hostOf, nameOf, type ClusterEntry } from './cluster-map.js';

/** How often a command is redirected, or tried again because its node could not serve it, at most. */
const MAX_REDIRECTIONS = 4;
const NEXT_TRY_MS = 100;
const TRY_AGAIN_MS = 10;
const REFRESH_AGAIN_MS = 100;
/** Commands without a key. All others have it first, but for EVAL and EVALSHA. */
const KEYLESS = new Set(['cluster', 'client', 'info', 'ping', 'publish', 'pubsub', 'scan', 'time']);

interface Target {
  readonly node: SingleConnection;
  /** Whether the slot is still being moved to the node, so that the command ASKING must come first. */
  readonly asking: boolean;
}

export class ClusterConnection implements Connection, Sender {
  readonly state: ConnectionState & { isOpen: boolean } = { isOpen: false, isAstray: false };
  readonly sender: Sender = this;
  private readonly map: ClusterMap;
  private readonly nodes = new Map<string, SingleConnection>();
  private readonly events = new EventEmitter();
  private refreshing: Promise<void> | undefined;
  private started = false;
  private closed = false;

  constructor(
    private readonly target: ClusterEntry,
    private readonly needs: Needs,
    private readonly patienceMs: number,
  ) {
    this.events.setMaxListeners(0);
    this.map = new ClusterMap(target, needs);
  }

  async start(): Promise<void> {
    if (this.started || this.closed) return;
    this.started = true;
    await this.refresh();
  }

  evalsha(sha1: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.send(String(rest[0]), ['EVALSHA', sha1, String(numberOfKeys), ...rest.map(String)]);
  }

  eval(source: string, numberOfKeys: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.send(String(rest[0]), ['EVAL', source, String(numberOfKeys), ...rest.map(String)]);
  }

  call(command: string, ...args: (string | number)[]): Promise<unknown> {
    const name = command.toLowerCase();
    const key = name === 'eval' || name === 'evalsha' ? args[2] : args[0];
    return this.send(KEYLESS.has(name) ? undefined : String(key), [command, ...args.map(String)]);
  }

  evalAndWait(run: EvalAndWait): Promise<readonly [unknown, unknown]> {
    return this.routed(run.keys[0], (node) => node.evalAndWait(run));
  }

  /** Each node is given up by itself, after a silence (silence.ts). */
  drop(): void {}

  onOpen(listener: () => void): () => void {
    this.events.on('open', listener);
    return () => void this.events.off('open', listener);
  }

  onEnd(listener: () => void): void {
    this.events.on('end', listener);
  }

  onError(listener: (error: Error) => void): () => void {
    this.events.on('problem', listener);
    return () => void this.events.off('problem', listener);
  }

  /** Calls `listener` when a node is connected, when a connection to one ended, and when slots have other masters than before. */
  onChange(listener: (isConcerned: (redisKey: string) => boolean) => void): void {
    this.events.on('change', listener);
  }

  masters(): readonly SingleConnection[] {
    return this.map.masters.flatMap((address) => this.nodes.get(nameOf(address)) ?? []);
  }

  /** The source of clients of a node that is connected. */
  anyNode(): ClientSource {
    const source = this.anyOpen()?.source;
    if (source === undefined) throw new Error('no node of the Cluster is connected');
    return source;
  }

  close(): void {
    this.closed = true;
    for (const node of this.nodes.values()) node.close();
  }

  private send(key: string | undefined, args: string[]): Promise<unknown> {
    return this.routed(key, (node) => node.send(args));
  }

  private async routed<T>(key: string | undefined, deliver: (node: SingleConnection) => Promise<T>): Promise<T> {
    const tries = { left: MAX_REDIRECTIONS };
    let next: Target | undefined = this.targetOf(key);
    for (;;) {
      // Nothing is awaited where the node is connected, so that commands of one turn of the event loop leave in it.
      const target: Target = next?.node.state.isOpen ? next : await this.openTarget(key, tries);
      try {
        // If ASKING fails, the command behind it fails too.
        if (target.asking) target.node.send(['ASKING']).catch(() => {});
        return await deliver(target.node);
      } catch (error) {
        const reason = reasonOf(error);
        const redirected = await this.redirected(reason, key, target.node);
        if (redirected === undefined) throw error;
        if (tries.left === 0) throw new Error(`Too many Cluster redirections. Last error: ${reason}`, { cause: error });
        tries.left -= 1;
        next = redirected.target;
      }
    }
  }

  /** Waits until the node of this key is connected, if it is while there are tries left. */
  private async openTarget(key: string | undefined, tries: { left: number }): Promise<Target> {
    while (tries.left > 0 && this.state.isOpen && !this.closed) {
      tries.left -= 1;
      void this.refresh();
      await delay(this.needs.clock, NEXT_TRY_MS);
      const target = this.targetOf(key);
      if (target?.node.state.isOpen) return target;
    }
    throw new Error(NOT_CONNECTED);
  }

  /** Where a command goes that was answered with this error; undefined when it is no matter of the Cluster. */
  private async redirected(reason: string, key: string | undefined, asked: SingleConnection): Promise<{ target: Target | undefined } | undefined> {
    const redirection = redirectionOf(reason);
    if (redirection !== undefined) {
      const { kind, address } = redirection;
      if (kind === 'MOVED') void this.refresh();
      const node = this.nodeAt(addressOf(address, asked));
      if (!node.state.isOpen) await node.start().catch(() => {});
      return { target: { node, asking: kind === 'ASK' } };
    }
    if (!/^(TRYAGAIN|CLUSTERDOWN)\b/.test(reason)) return undefined;
    await delay(this.needs.clock, reason.startsWith('TRYAGAIN') ? TRY_AGAIN_MS : NEXT_TRY_MS);
    if (reason.startsWith('CLUSTERDOWN')) void this.refresh();
    return { target: this.targetOf(key) };
  }

  private targetOf(key: string | undefined): Target | undefined {
    const address = key === undefined ? undefined : this.map.masterOf(slotOf(key));
    const node = key === undefined ? this.anyOpen() : address && this.nodes.get(nameOf(address));
    return node && { node, asking: false };
  }

  private anyOpen(): SingleConnection | undefined {
    const open = [...this.nodes.values()].filter(({ state }) => state.isOpen);
    return open[Math.floor(Math.random() * open.length)];
  }

  /** The connection to a node, which is made when there is none. */
  private nodeAt(address: Address): SingleConnection {
    const name = nameOf(address);
    const present = this.nodes.get(name);
    if (present !== undefined) return present;
    const { clock } = this.needs;
    const source = at(this.target.ofNodes, this.target.map(address));
    const silence = new Silence(clock, this.patienceMs, () => node.drop());
    const node: SingleConnection = new SingleConnection(() => Promise.resolve(source), this.needs, silence);
    this.nodes.set(name, node);
    const isOfNode = (redisKey: string): boolean => nameOf(this.map.masterOf(slotOf(redisKey)) ?? address) === name;
    let wasOpen = false;
    node.onOpen(() => {
      wasOpen = true;
      this.changed(isOfNode);
    });
    node.onEnd(() => {
      // It may have been taken off the map meanwhile, or its master may have changed.
      if (this.nodes.get(name) === node && !this.closed) void this.refresh();
      const isNews = wasOpen;
      wasOpen = false;
      this.changed(isNews ? isOfNode : undefined);
    });
    node.onError((error) => this.events.emit('problem', error));
    return node;
  }

  /** `isConcerned`: for which keys another server may answer from now on. A further try to connect that fails is no news. */
  private changed(isConcerned?: (redisKey: string) => boolean): void {
    const wasOpen = this.state.isOpen;
    this.state.isOpen = this.map.isKnown && this.anyOpen() !== undefined && !this.closed;
    if (wasOpen && !this.state.isOpen) this.events.emit('end');
    if (isConcerned) this.events.emit('change', isConcerned);
    if (!wasOpen && this.state.isOpen) this.events.emit('open');
  }

  /** Reads the slots anew, and tries again until that succeeds. */
  private refresh(): Promise<void> {
    this.refreshing ??= this.readMap().finally(() => (this.refreshing = undefined));
    return this.refreshing;
  }

  private async readMap(): Promise<void> {
    for (;;) {
      try {
        if (this.closed) return;
        const haveMoved = await this.map.read([...this.nodes.values()].filter(({ state }) => state.isOpen));
        if (this.closed) return;
        return await this.follow(haveMoved);
      } catch (error) {
        this.events.emit('problem', error);
        // While a node serves, nothing has ended: only the slots may be others by now.
        if (!this.state.isOpen) this.events.emit('end');
        await delay(this.needs.clock, REFRESH_AGAIN_MS);
      }
    }
  }

  /** Connects to the masters of the map, and leaves the nodes that are on it no more. `haveMoved`: whether slots have other masters. */
  private async follow(haveMoved: boolean): Promise<void> {
    const names = this.map.masters.map(nameOf);
    for (const [name, node] of this.nodes) {
      if (names.includes(name)) continue;
      this.nodes.delete(name);
      node.close();
    }
    await Promise.allSettled(this.map.masters.map((address) => this.nodeAt(address).start()));
    this.changed(haveMoved ? () => true : undefined);
  }
}

/** The address in a redirection. A server that does not know its own host names only the port: then it is on the host of the node that was asked. */
function addressOf(text: string, asked: SingleConnection): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon) || hostOf(asked.source), port: Number(text.slice(colon + 1)) };
}
