/**
 * The table of the matrix: for each kind of handler, its scopes × where the lock stands × what it returns. A variant
 * without a lock comes along, to compare with.
 */
import {
  Inject, Injectable, Scope, SetMetadata, type CanActivate, type ExecutionContext, type INestApplication, type ModuleMetadata, type Type,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Observable } from 'rxjs';
import { Locked } from '../../../lib/index.js';
import type { Returns } from '../../../lib/nest/locked-method.js';
import { Stage } from './stage.js';

export type Lifetime = 'singleton' | 'request' | 'transient';
export type Order = 'above' | 'below' | 'none';

export interface Variant {
  /** In words that suit a route, a pattern and a field of GraphQL. */
  readonly name: string;
  readonly lifetime: Lifetime;
  readonly order: Order;
  readonly returns: Returns;
  /** Of the handler's class. */
  readonly scope: Scope;
  /** The lock and its absence, around the other decorators of the handler. */
  readonly above: MethodDecorator;
  readonly below: MethodDecorator;
  /** What the handler calls. */
  readonly work: Type<Work>;
}

export interface Work {
  run(id: string): Promise<string> | Observable<string>;
}

/** What happens to a call whose caller goes away: its work ends, or goes on under its lock. */
export type OnLeaving = 'ends' | 'goes on';

export interface Kind {
  readonly name: string;
  readonly lifetimes: readonly Lifetime[];
  /** By what it may return; without an entry it cannot, and without a word it has no caller that could leave. */
  readonly returns: Partial<Record<Returns, OnLeaving | 'has no caller'>>;
  readonly guarded: boolean;
  /** The id of every call, where a handler gets none. */
  readonly onlyId?: string;
  /** What stands for the id in the key template of a handler. */
  readonly placeholder: string;
  /** The name of the handler's method. */
  readonly method: string;
  handler(variant: Variant): Type;
  /** Controllers or providers that the handlers are, and the modules around them. */
  modules(variants: readonly Variant[], handlers: Type[]): ModuleMetadata;
  start(app: INestApplication): Promise<Running>;
}

export interface Running {
  call(variant: Variant, id: string): Call;
  close?(): Promise<void>;
}

export interface Call {
  /** What its caller is told, an error too; never rejects. */
  readonly answer: Promise<unknown>;
  /** The caller goes away; resolves when the server has seen it. */
  leave?(): Promise<void>;
}

const none: MethodDecorator = () => undefined;

export function variantsOf(kind: Kind, orders: readonly Order[]): Variant[] {
  const returns = Object.keys(kind.returns) as Returns[];
  return kind.lifetimes.flatMap((lifetime) => orders.flatMap((order) => returns.map((given) => variant(kind, lifetime, order, given))));
}

/**
 * Nest itself never constructs a handler that is transient (nobody injects it), so there the lock stands at a transient
 * object that the handler calls.
 */
function variant(kind: Kind, lifetime: Lifetime, order: Order, returns: Returns): Variant {
  const name = `${lifetime}_${order}_${returns}`;
  const around = (placeholder: string, wanted: boolean) => {
    const lock = Locked(`${name}:${placeholder}`, { returns }) as MethodDecorator;
    return { above: wanted && order === 'above' ? lock : none, below: wanted && order === 'below' ? lock : none };
  };
  const transient = lifetime === 'transient';
  const work = workOf(name, returns, transient ? Scope.TRANSIENT : Scope.DEFAULT, around('<0>', transient));
  const scope = lifetime === 'request' ? Scope.REQUEST : Scope.DEFAULT;
  return { name, lifetime, order, returns, scope, work, ...around(kind.placeholder, !transient) };
}

function workOf(name: string, returns: Returns, scope: Scope, { above, below }: Pick<Variant, 'above' | 'below'>): Type<Work> {
  @Injectable({ scope })
  class VariantWork implements Work {
    constructor(@Inject(Stage) private readonly stage: Stage) {}

    @above
    @ForClerks()
    @below
    run(id: string): Promise<string> | Observable<string> {
      return this.stage.perform(`${name}:${id}`, returns);
    }
  }
  return VariantWork;
}

/** What {@link ClerksOnly} asks of a handler. */
export function ForClerks(): MethodDecorator {
  return SetMetadata('role', 'clerk');
}

/** Admits nobody to a handler whose metadata it cannot see. */
@Injectable()
export class ClerksOnly implements CanActivate {
  constructor(private readonly reflector: Reflector, @Inject(Stage) private readonly stage: Stage) {}

  canActivate(context: ExecutionContext): boolean {
    return this.stage.admits && this.reflector.get<string>('role', context.getHandler()) === 'clerk';
  }
}
