/** A vote or a give-back on its way to one node of a Redlock: one object from the question until the answer is heard. */
import type { LockStoreError } from '../../core/port/errors.js';
import type { BundledRequest } from '../wire/bundles.js';
import type { BuiltCall, ScriptArgument } from '../wire/lua.generated.js';
import type { NodeSpot } from '../wire/redis-keys.js';
import type { ScriptReply } from '../wire/script-runner.js';
import type { Hear } from './poll.js';

export type DecodeNow<T> = (reply: ScriptReply, sentAt: number, receivedAt: number) => T;

export class NodeRequest<T> implements BundledRequest {
  constructor(
    private readonly call: BuiltCall,
    private readonly on: NodeSpot,
    /** A local instant not later than its sending; undefined where nobody has just read the clock. */
    readonly askedAt: number | undefined,
    private readonly decode: DecodeNow<T>,
    private readonly hear: Hear<T>,
    /** Notes that the node answered, and tells the local instant. */
    private readonly answeredNow: () => number,
  ) {}

  get key(): string {
    return this.on.key;
  }

  get lockKey(): string {
    return this.on.lockKey;
  }

  addTo(keys: string[], args: ScriptArgument[]): void {
    keys.push(...this.call.keys);
    args.push(...this.call.args);
  }

  answered(reply: ScriptReply, sentAt: number): void {
    const answer = this.decode(reply, sentAt, this.answeredNow());
    this.hear({ kind: 'answer', answer });
  }

  failed(error: LockStoreError): void {
    this.hear({ kind: 'failure', error });
  }
}
