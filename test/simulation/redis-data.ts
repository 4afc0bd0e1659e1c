/**
 * The memory of a simulated Redis: strings and hashes with their expiry, and the commands that the scripts and the boot
 * probe use. What a command does, and when it is refused, is what the real server does (`redis-and-interpreter.test.ts`).
 */
import type { LuaReply } from './lua-interpreter.js';
import { ServerError } from './lua-values.js';

type Value = string | Map<string, string>;

export interface Entry {
  readonly value: Value;
  /** Server time in ms; the key is there up to and including it. */
  readonly expiresAt: number;
}

/** What one command knows of its surroundings. */
export interface CommandContext {
  /** Server time in microseconds, the same for a whole script. */
  readonly nowUs: number;
  /** Something was written before, by the same script. */
  dirty: boolean;
  readonly publish: (channel: string, message: string) => number;
  /** How many connections listen on a channel. */
  readonly listeners: (channel: string) => number;
}

/** How the server refuses writes at the moment. */
export type Refusal = 'nothing' | 'oom' | 'readonly';

/** What has to be put back to undo one script: the keys it wrote as they were before. */
export type Undo = ReadonlyMap<string, Entry | undefined>;

/** What one script or command wrote: the keys as they are after it. */
export type Changes = ReadonlyMap<string, Entry | undefined>;

const WRITES = new Set(['SET', 'DEL', 'HSET', 'HDEL', 'PEXPIRE']);
const NEEDS_MEMORY = new Set(['SET', 'HSET']);

export class RedisData {
  refuses: Refusal = 'nothing';
  private entries = new Map<string, Entry>();
  private undo = new Map<string, Entry | undefined>();

  /** `nodeId` is the name of a node of a Cluster; undefined for any other server. */
  constructor(private readonly runId: () => string, private readonly nodeId: () => string | undefined = () => undefined) {}

  /** Runs one command. Throws a ServerError with the server's words. */
  run([name = '', ...args]: readonly string[], context: CommandContext): LuaReply {
    const command = name.toUpperCase();
    if (WRITES.has(command)) this.admitWrite(command, context);
    const nowMs = Math.floor(context.nowUs / 1000);
    const [key = '', ...rest] = args;
    switch (command) {
      case 'GET':
        return this.text(key, nowMs) ?? null;
      case 'SET':
        return this.set(key, rest, nowMs);
      case 'DEL':
        return this.remove(args, nowMs);
      case 'HGET':
        return this.hash(key, nowMs)?.get(rest[0] ?? '') ?? null;
      case 'HMGET': {
        const hash = this.hash(key, nowMs);
        return rest.map((field) => hash?.get(field) ?? null);
      }
      case 'HGETALL':
        return [...(this.hash(key, nowMs) ?? [])].flat();
      case 'HSET':
        return this.setFields(key, rest, nowMs);
      case 'HDEL':
        return this.removeFields(key, rest, nowMs);
      case 'PEXPIRE':
        return this.expireIn(key, Number(rest[0]), nowMs);
      case 'TIME':
        return [String(Math.floor(context.nowUs / 1e6)), String(context.nowUs % 1e6)];
      case 'PUBLISH':
        return context.publish(key, rest[0] ?? '');
      case 'PUBSUB':
        return rest.flatMap((channel) => [channel, context.listeners(channel)]);
      case 'INFO':
        return this.info();
      case 'CLUSTER': {
        const nodeId = this.nodeId();
        if (nodeId === undefined || key.toUpperCase() !== 'MYID') throw new ServerError('ERR This instance has cluster support disabled');
        return nodeId;
      }
      default:
        throw new ServerError(`ERR unknown command '${name}'`);
    }
  }

  private info(): string {
    const mode = this.nodeId() === undefined ? 'standalone' : 'cluster';
    return `# Server\r\nredis_version:7.0.15\r\nredis_mode:${mode}\r\nrun_id:${this.runId()}\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n`;
  }

  /** Ends the collection of what one script or command wrote. */
  takeUndo(): Undo {
    const { undo } = this;
    this.undo = new Map();
    return undo;
  }

  putBack(undo: Undo): void {
    this.copy(undo);
  }

  /** The keys that were written, as they are now. */
  changed(undo: Undo): Changes {
    return new Map([...undo.keys()].map((key) => [key, this.entries.get(key)]));
  }

  /** Writes what another server wrote. */
  copy(changes: Changes): void {
    for (const [key, entry] of changes) {
      if (entry === undefined) this.entries.delete(key);
      else this.entries.set(key, entry);
    }
  }

  clear(): void {
    this.entries.clear();
  }

  /** All that it holds. What a later command writes does not change it, once `become` was called. */
  contents(): ReadonlyMap<string, Entry> {
    return this.entries;
  }

  /** Holds this, and nothing else. */
  become(entries: ReadonlyMap<string, Entry>): void {
    this.entries = new Map(entries);
    this.undo.clear();
  }

  /** Deletes what has expired, as a server does in the background: a clock that is set back does not revive it. */
  collect(nowMs: number): void {
    for (const [key, { expiresAt }] of this.entries) if (nowMs > expiresAt) this.entries.delete(key);
  }

  /** The keys that are there at `nowMs`, for those who look from outside. */
  keys(nowMs: number): string[] {
    return [...this.entries.keys()].filter((key) => this.entry(key, nowMs) !== undefined);
  }

  peek(key: string, nowMs: number): { readonly value: Value; readonly expiresAt: number } | undefined {
    return this.entry(key, nowMs);
  }

  private admitWrite(command: string, context: CommandContext): void {
    if (this.refuses === 'readonly') throw new ServerError("READONLY You can't write against a read only replica.");
    if (this.refuses === 'oom' && NEEDS_MEMORY.has(command) && !context.dirty) {
      throw new ServerError("OOM command not allowed when used memory > 'maxmemory'.");
    }
    context.dirty = true;
  }

  private entry(key: string, nowMs: number): Entry | undefined {
    const entry = this.entries.get(key);
    return entry === undefined || nowMs > entry.expiresAt ? undefined : entry;
  }

  private text(key: string, nowMs: number): string | undefined {
    const value = this.entry(key, nowMs)?.value;
    if (value instanceof Map) throw wrongType();
    return value;
  }

  private hash(key: string, nowMs: number): ReadonlyMap<string, string> | undefined {
    const value = this.entry(key, nowMs)?.value;
    if (typeof value === 'string') throw wrongType();
    return value;
  }

  private write(key: string, entry: Entry | undefined): void {
    if (!this.undo.has(key)) this.undo.set(key, this.entries.get(key));
    if (entry === undefined) this.entries.delete(key);
    else this.entries.set(key, entry);
  }

  private set(key: string, [value = '', ...options]: readonly string[], nowMs: number): LuaReply {
    let expiresAt = Infinity;
    for (let at = 0; at < options.length; at++) {
      const option = (options[at] ?? '').toUpperCase();
      if (option === 'KEEPTTL') expiresAt = this.entry(key, nowMs)?.expiresAt ?? Infinity;
      else if (option === 'PX') expiresAt = nowMs + wholeNumber(options[++at]);
      else if (option !== 'NX') throw new ServerError('ERR syntax error');
      else if (this.entry(key, nowMs) !== undefined) return null;
    }
    this.write(key, { value, expiresAt });
    return 'OK';
  }

  private remove(keys: readonly string[], nowMs: number): number {
    const there = keys.filter((key) => this.entry(key, nowMs) !== undefined);
    for (const key of there) this.write(key, undefined);
    return there.length;
  }

  private setFields(key: string, fields: readonly string[], nowMs: number): number {
    if (fields.length === 0 || fields.length % 2 !== 0) throw new ServerError("ERR wrong number of arguments for 'hset' command");
    const hash = new Map(this.hash(key, nowMs));
    const before = hash.size;
    for (let at = 0; at < fields.length; at += 2) hash.set(fields[at] ?? '', fields[at + 1] ?? '');
    this.write(key, { value: hash, expiresAt: this.entry(key, nowMs)?.expiresAt ?? Infinity });
    return hash.size - before;
  }

  private removeFields(key: string, fields: readonly string[], nowMs: number): number {
    const known = this.hash(key, nowMs);
    if (known === undefined) return 0;
    const hash = new Map(known);
    for (const field of fields) hash.delete(field);
    const { expiresAt } = this.entry(key, nowMs) as Entry;
    if (hash.size < known.size) this.write(key, hash.size === 0 ? undefined : { value: hash, expiresAt });
    return known.size - hash.size;
  }

  private expireIn(key: string, ms: number, nowMs: number): number {
    const entry = this.entry(key, nowMs);
    if (entry === undefined) return 0;
    this.write(key, ms > 0 ? { value: entry.value, expiresAt: nowMs + wholeNumber(String(ms)) } : undefined);
    return 1;
  }
}

function wholeNumber(text: string | undefined): number {
  const number = Number(text);
  if (!/^-?\d+$/.test(text ?? '')) throw new ServerError('ERR value is not an integer or out of range');
  if (number <= 0) throw new ServerError("ERR invalid expire time in 'set' command");
  return number;
}

const wrongType = (): ServerError => new ServerError('WRONGTYPE Operation against a key holding the wrong kind of value');
