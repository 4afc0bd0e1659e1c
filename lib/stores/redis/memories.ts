/**
 * The name of the memory that the server has for each slot group, as it was answered on the present connection (memory.lua). Each
 * request that may grant carries the name: while the server's record has the same one, the script need not find out who it is.
 *
 *     unknown ──(an answer of the server)──▶ known ──(the connection ended, a node came or went)──▶ unknown …
 */
import { NO_SERVER, SLOT_GROUPS, UNKNOWN_MEMORY } from '../wire/redis-keys.js';

/** Behind so many characters for the server, the name of a memory is the server time in ms from which it counts. */
const SERVER_LENGTH = NO_SERVER.length;

export class Memories {
  /** Another number for each connection: what was asked on an earlier one may be the answer of another server. Only this object writes it. */
  connection = 0;
  /** The memories that were answered on the present connection, by slot group. */
  private known: string[] = unknownMemories();
  /** The memories that were answered last, also on earlier connections, by slot group. */
  private readonly last: string[] = unknownMemories();

  of(group: number): string {
    return this.known[group]!;
  }

  /** The memory of a group; undefined while it is not known. */
  knownOf(group: number): string | undefined {
    const memory = this.of(group);
    return memory === UNKNOWN_MEMORY ? undefined : memory;
  }

  get areKnown(): boolean {
    return !this.known.includes(UNKNOWN_MEMORY);
  }

  /**
   * The memory that made a grant at this server time; undefined while it is not known, and when the present memory began only after
   * that, so that it may have forgotten the grant.
   */
  madeBy(group: number, serverTime: number): string | undefined {
    const memory = this.knownOf(group);
    return memory !== undefined && beginningOf(memory) <= serverTime ? memory : undefined;
  }

  /** Whether there is a group whose server does not say who it is. */
  get areBlind(): boolean {
    return this.known.some((memory) => memory.startsWith(NO_SERVER));
  }

  /** Whether the server has another memory than this one by now, as far as this process knows. */
  isOutdated(group: number, memory: string | undefined): boolean {
    const known = this.known[group];
    return known !== memory && known !== UNKNOWN_MEMORY;
  }

  /** Forgets the memories of this connection, because another server may answer on the next one. */
  reset(): void {
    this.connection += 1;
    this.known = unknownMemories();
  }

  /** Notes what was asked for on the connection of this number. Returns the memory that was there before, if the server has another one now. */
  learn(group: number, memory: string, connection: number): string | undefined {
    if (connection !== this.connection) return undefined;
    const before = this.last[group]!;
    this.known[group] = this.last[group] = memory;
    return before === memory || before === UNKNOWN_MEMORY ? undefined : before;
  }
}

/** The server time in ms from which a memory counts. */
export function beginningOf(memory: string): number {
  return Number(memory.slice(SERVER_LENGTH));
}

function unknownMemories(): string[] {
  return new Array<string>(SLOT_GROUPS).fill(UNKNOWN_MEMORY);
}
