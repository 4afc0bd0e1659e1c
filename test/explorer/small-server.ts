/**
 * A Redis whose whole state is a value: each script takes one and gives the next. The scripts are those that are shipped, or
 * with a planted defect, run by the interpreter of the simulation.
 */
import type { BuiltCall } from '../../lib/stores/wire/lua.generated.js';
import { LuaInterpreter, type LuaReply } from '../simulation/lua-interpreter.js';
import type { RecordView } from '../simulation/record-check.js';
import { RedisData, type Entry } from '../simulation/redis-data.js';
import { SERVER_BEGINS_AT } from './canonical.js';

/** What a server remembers. Nothing changes it. */
export interface ServerMemory {
  readonly entries: ReadonlyMap<string, Entry>;
  /** How often it was started. */
  readonly incarnation: number;
}

export interface Message {
  readonly channel: string;
  readonly text: string;
}

export interface Ran {
  readonly memory: ServerMemory;
  readonly reply: LuaReply;
  readonly messages: readonly Message[];
}

/** A text of the scripts, and what stands there instead. */
export interface LuaDefect {
  readonly text: string;
  readonly instead: string;
}

export const EMPTY: ServerMemory = { entries: new Map(), incarnation: 0 };

const lua = new LuaInterpreter();

export class SmallServer {
  private incarnation = 0;
  private readonly data = new RedisData(() => String.fromCharCode(97 + this.incarnation).repeat(40));
  private readonly sources = new Map<string, string>();
  /** Whether the text of the defect was in a script that ran. */
  isPlanted = false;

  constructor(private readonly defect?: LuaDefect) {}

  /** `isHeard` says on which channels somebody listens. */
  run({ entries, incarnation }: ServerMemory, { script, keys, args }: BuiltCall, now: number, isHeard: (channel: string) => boolean): Ran {
    const { data } = this;
    this.incarnation = incarnation;
    data.become(entries);
    const messages: Message[] = [];
    const context = {
      nowUs: (SERVER_BEGINS_AT + now) * 1_000,
      dirty: false,
      publish: (channel: string, text: string) => messages.push({ channel, text }),
      listeners: (channel: string) => Number(isHeard(channel)),
    };
    const reply = lua.run(this.sourceOf(script.name, script.source), keys, args.map(String), (command) => data.run(command, context));
    data.collect(SERVER_BEGINS_AT + now);
    return { memory: { entries: data.contents(), incarnation }, reply, messages };
  }

  private sourceOf(name: string, source: string): string {
    const known = this.sources.get(name);
    if (known !== undefined) return known;
    const { text = '', instead = '' } = this.defect ?? {};
    const planted = text !== '' && source.includes(text);
    this.isPlanted ||= planted;
    const changed = planted ? source.replace(text, () => instead) : source;
    this.sources.set(name, changed);
    return changed;
  }
}

/** What stands in a memory, for those who look from outside. */
export function viewOf({ entries }: ServerMemory, now: number, isHeard: (channel: string) => boolean): RecordView {
  const there = (key: string): Entry | undefined => {
    const entry = entries.get(key);
    return entry === undefined || SERVER_BEGINS_AT + now > entry.expiresAt ? undefined : entry;
  };
  return {
    nowMs: () => SERVER_BEGINS_AT + now,
    text: (key) => {
      const value = there(key)?.value;
      return typeof value === 'string' ? value : undefined;
    },
    hash: (key) => {
      const value = there(key)?.value;
      return value instanceof Map ? value : undefined;
    },
    expiryOf: (key) => there(key)?.expiresAt,
    isHeardOn: isHeard,
  };
}

const texts = new WeakMap<ServerMemory, string>();

/** A memory as text, for the canonical form. */
export function textOf(memory: ServerMemory): string {
  const known = texts.get(memory);
  if (known !== undefined) return known;
  const keys = [...memory.entries].sort(([one], [other]) => (one < other ? -1 : 1));
  const items = keys.map(([key, { value, expiresAt }]) => [key, value instanceof Map ? [...value].sort() : value, expiresAt === Infinity ? 0 : expiresAt]);
  const text = JSON.stringify([memory.incarnation, items]);
  texts.set(memory, text);
  return text;
}
