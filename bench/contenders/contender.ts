/**
 * What takes part in a benchmark: a way to run work under a lock, and what it sends to do so.
 */
import { createRequire } from 'node:module';

/** What a careful application has inside a lock to learn whether it still holds it. */
export interface Guard {
  /** Missing where the library gives out none, or the application makes no use of it. */
  readonly fence?: number | undefined;
  /** Whether the library has said by now that the lock is lost; always false where it says nothing. */
  isLost(): boolean;
}

export interface LockUnderTest {
  withLock(key: string, work: () => Promise<void> | void): Promise<void>;
  withMode?(mode: 'read' | 'write', key: string, work: () => Promise<void> | void): Promise<void>;
  /** Takes a lock and keeps it renewed; resolves to its release. Missing where the library renews nothing. */
  hold?(key: string, leaseMs: number, onLost: () => void): Promise<() => Promise<void>>;
  /** Runs work inside a lock that is renewed. Missing where the question is not asked. */
  guard?(key: string, leaseMs: number, work: (guard: Guard) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

export interface Contender {
  readonly name: string;
  /**
   * The commands that it sends, named as Redis counts them. Redis also counts what scripts call, and cannot tell the two
   * apart, so a contender names only what comes over the wire.
   */
  readonly sends: readonly string[];
  /** Sent once a cycle besides, under a name that its scripts use too. */
  readonly sendsBesides: number;
  /** `ports` are those of all servers; `port` is the first of them, for who wants no more. */
  open(port: number, ports: readonly number[]): Promise<LockUnderTest>;
}

/** Peers are installed in bench/node_modules and carry no types that agree with each other. */
export const requirePeer = createRequire(new URL('../../../../bench/package.json', import.meta.url)) as (name: string) => any;

/** Node's event loop turns once: the shortest critical section that is asynchronous. */
export const oneTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
export const nothing = (): void => {};
