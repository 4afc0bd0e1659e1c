/** Commands of a simulated client that are sent together and answered together, each with its reply or its error. */
import type { LuaReply } from './lua-interpreter.js';
import type { Argument } from './sim-client.js';

type Answer = readonly [error: Error | null, reply: LuaReply | undefined];

export class SimPipeline {
  private readonly commands: (readonly [string, readonly Argument[]])[] = [];

  constructor(private readonly ask: (command: string, args: readonly Argument[]) => Promise<LuaReply>) {}

  asking(): this {
    return this.call('asking');
  }

  eval(...args: Argument[]): this {
    return this.call('eval', ...args);
  }

  call(command: string, ...args: Argument[]): this {
    this.commands.push([command, args]);
    return this;
  }

  /** Resolves when all are answered; never rejects. */
  exec(): Promise<readonly Answer[]> {
    const asked = this.commands.map(([command, args]) => this.ask(command, args));
    return Promise.all(asked.map((reply) => reply.then((value): Answer => [null, value], (error: Error): Answer => [error, undefined])));
  }
}
