/** What tests ask of the processes of a simulated Redlock, and what its masters do with a script that a test names. */
import type { LockStoreError } from '../../lib/core/port/errors.js';
import type { AcquireOutcome, AcquireRequest, Grant, ReleaseRequest, RenewOutcome } from '../../lib/core/port/lock-store.js';
import type { LuaScript } from '../../lib/stores/wire/lua.generated.js';
import type { LuaReply } from '../simulation/lua-interpreter.js';
import { ServerError } from '../simulation/lua-values.js';
import type { SimServer } from '../simulation/sim-server.js';
import { granted } from './acquire-request.js';
import type { RedlockMember, SimulatedRedlock } from './simulated-redlock.js';

/** All are about the lock `k`, for writing and for 3 s, unless told otherwise. */
export class RedlockRequests {
  constructor(private readonly redlock: SimulatedRedlock) {}

  request(id: string, how: Partial<AcquireRequest> = {}): AcquireRequest {
    const usual = { key: 'k', mode: 'write', leaseMs: 3_000, queue: false, fences: 1, minHoldMs: 0, minReplicas: 0 } as const;
    return { ...usual, id, notAfter: this.redlock.clock.now() + 2_000, ...how };
  }

  ask({ store }: RedlockMember, id: string, how?: Partial<AcquireRequest>): Promise<AcquireOutcome> {
    return this.redlock.runUntil(store.acquire(this.request(id, how)));
  }

  async granted(member: RedlockMember, id: string, how?: Partial<AcquireRequest>): Promise<Grant> {
    return granted(await this.ask(member, id, how));
  }

  release({ store }: RedlockMember, id: string, how: Partial<ReleaseRequest> = {}): Promise<'released' | 'lost'> {
    return this.redlock.runUntil(store.release({ key: 'k', id, ...how }));
  }

  async renew({ store }: RedlockMember, id: string, leaseMs = 3_000): Promise<RenewOutcome> {
    return this.redlock.runUntil(store.renew({ key: 'k', id, leaseMs, minReplicas: 0 }));
  }

  /** What a call fails with. */
  async failure(call: Promise<unknown>): Promise<LockStoreError> {
    const outcome = await this.redlock.runUntil(call.then((result) => ({ result }), (error: LockStoreError) => error));
    if (!(outcome instanceof Error)) throw new Error(`expected a failure, got ${JSON.stringify(outcome.result)}`);
    return outcome;
  }

  /** The masters that have a record of a lock. */
  standing(key = 'k'): string[] {
    return this.redlock.servers.filter((server) => server.keys().some((name) => name.endsWith(`:l:${key}`))).map(({ name }) => name);
  }

  /** How many commands each master runs meanwhile. */
  async commandsOf(work: () => Promise<unknown>): Promise<number[]> {
    const before = this.redlock.servers.map(({ commands }) => commands);
    await work();
    return this.redlock.servers.map(({ commands }, n) => commands - before[n]!);
  }
}

/** The master refuses the script from now on, as it does for a user who may not run what the script runs. */
export function refuses(server: SimServer, script: LuaScript, words: string): void {
  intercept(server, script, (_go, reply) => reply(new ServerError(words)));
}

/** Something between the process and the master answers the script from now on, or the answer to another one is taken for it. */
export function answersWith(server: SimServer, script: LuaScript, answer: LuaReply): void {
  intercept(server, script, (_go, reply) => reply(answer));
}

/** The script is held up on its way to the master. Returns what lets it arrive, when nobody waits for its answer any more. */
export function holdsUp(server: SimServer, script: LuaScript): () => void {
  const held: (() => void)[] = [];
  let isOver = false;
  intercept(server, script, (go, reply) => (isOver ? go(reply) : held.push(() => go(() => undefined))));
  return () => {
    isOver = true;
    for (const go of held) go();
  };
}

type Answer = Parameters<SimServer['receive']>[2];

function intercept(server: SimServer, { source, sha1 }: LuaScript, instead: (go: (reply: Answer) => void, reply: Answer) => void): void {
  const receive = server.receive.bind(server);
  server.receive = (command, socket, reply) => {
    if (command[1] !== source && command[1] !== sha1) return receive(command, socket, reply);
    instead((answer) => receive(command, socket, answer), reply);
  };
}
