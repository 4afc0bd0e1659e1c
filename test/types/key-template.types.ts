/** What the compiler says of keys, sentence by sentence. Checked by `npm run typecheck`; nothing here runs. */
import { expectTypeOf } from 'expect-type';
import type { KeyProblem } from '../../lib/nest/key-template-paths.js';

declare const brand: unique symbol;
type OrderId = string & { readonly [brand]: 'order' };

interface Order {
  readonly id: OrderId;
  readonly number: number;
  readonly placed: Date;
  readonly note?: string;
  readonly customer?: { readonly id: bigint; readonly tags: readonly string[] } | null;
  readonly lines: readonly { readonly sku: string }[];
  readonly pair: readonly [string, Order];
  readonly labels: Record<string, string>;
  readonly byNumber: Record<number, { readonly id: string }>;
  readonly total: () => number;
  readonly later: Promise<string>;
  readonly nothing: undefined;
}

class ObjectId {
  toString(): string {
    return 'id';
  }
}

type Cannot<Path extends string> =
  `<${Path}> cannot stand in a key: expected a string, number, bigint, boolean, Date or an object that declares toString`;

/** All is well. */
type Fine = never;

expectTypeOf<KeyProblem<'nightly', []>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'order:<0>', [string]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'order:<0>:<1>', [id: number, flag: boolean]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'a<<b:<0>', [string]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'<<<0>', [string]>>().toEqualTypeOf<Fine>();

// Paths
expectTypeOf<KeyProblem<'o:<0.id>:<0.number>:<0.placed>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.customer.id>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.note>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.id>', [order?: Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.id>', [Order | null]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.lines.0.sku>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.lines.length>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.customer.tags.3>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.pair.1.id>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.labels.any>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.byNumber.7.id>', [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0.id>', [{ id: string } | { id: number; x: 1 }]>>().toEqualTypeOf<Fine>();

// Values with a text of their own
expectTypeOf<KeyProblem<'o:<0>', [Date]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>', [ObjectId]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>', [OrderId]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>', ['a' | 'b' | 7]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>', [URL]>>().toEqualTypeOf<Fine>();

// What the compiler knows nothing of is checked when it runs
expectTypeOf<KeyProblem<'o:<0>:<0.a.b>', [any]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>:<0.a.b>', [unknown]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<7>', any[]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<string, []>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<`order:${string}`, []>>().toEqualTypeOf<Fine>();

// Rest parameters
expectTypeOf<KeyProblem<'o:<0>:<5>', string[]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<0>:<5.id>', [string, ...Order[]]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<'o:<5>', [string, ...Order[]]>>().toEqualTypeOf<Cannot<'5'>>();

// An argument that is not there
type NoArgument<Path extends string> = `<${Path}> names an argument that this method does not have`;
expectTypeOf<KeyProblem<'o:<3>', [string, string]>>().toEqualTypeOf<NoArgument<'3'>>();
expectTypeOf<KeyProblem<'o:<0>', []>>().toEqualTypeOf<NoArgument<'0'>>();
expectTypeOf<KeyProblem<'o:<1.id>', [Order]>>().toEqualTypeOf<NoArgument<'1.id'>>();
expectTypeOf<KeyProblem<'o:<-1>', string[]>>().toEqualTypeOf<NoArgument<'-1'>>();

// A path that is not there
type NoProperty<Path extends string, Name extends string> = `<${Path}> names a property '${Name}' that the argument does not have`;
expectTypeOf<KeyProblem<'o:<0.ID>', [Order]>>().toEqualTypeOf<NoProperty<'0.ID', 'ID'>>();
expectTypeOf<KeyProblem<'o:<0.customer.name>', [Order]>>().toEqualTypeOf<NoProperty<'0.customer.name', 'name'>>();
expectTypeOf<KeyProblem<'o:<0.shop.id>', [Order]>>().toEqualTypeOf<NoProperty<'0.shop.id', 'shop'>>();
expectTypeOf<KeyProblem<'o:<0.pair.2>', [Order]>>().toEqualTypeOf<NoProperty<'0.pair.2', '2'>>();
expectTypeOf<KeyProblem<'o:<0.id>', [{ id: string } | { name: string }]>>().toEqualTypeOf<NoProperty<'0.id', 'id'>>();

// A value that cannot stand in a key
expectTypeOf<KeyProblem<'o:<0>', [Order]>>().toEqualTypeOf<Cannot<'0'>>();
expectTypeOf<KeyProblem<'o:<0>', [string | Order]>>().toEqualTypeOf<Cannot<'0'>>();
expectTypeOf<KeyProblem<'o:<0.lines>', [Order]>>().toEqualTypeOf<Cannot<'0.lines'>>();
expectTypeOf<KeyProblem<'o:<0.total>', [Order]>>().toEqualTypeOf<Cannot<'0.total'>>();
expectTypeOf<KeyProblem<'o:<0.later>', [Order]>>().toEqualTypeOf<Cannot<'0.later'>>();
expectTypeOf<KeyProblem<'o:<0>', [symbol]>>().toEqualTypeOf<Cannot<'0'>>();
expectTypeOf<KeyProblem<'o:<0>', [Map<string, string>]>>().toEqualTypeOf<Cannot<'0'>>();
expectTypeOf<KeyProblem<'o:<0.nothing>', [Order]>>().toEqualTypeOf<`<0.nothing> is always undefined`>();

// A template that is no template
expectTypeOf<KeyProblem<'o:<0', [string]>>().toEqualTypeOf<`'o:<0' has a '<' that is not closed; write '<<' for a literal '<'`>();
expectTypeOf<KeyProblem<'o:<id>', [string]>>().toEqualTypeOf<`<id> does not start with the position of an argument, as in <0> or <0.id>`>();
expectTypeOf<KeyProblem<'o:<>', [string]>>().toEqualTypeOf<`<> does not start with the position of an argument, as in <0> or <0.id>`>();

// Several problems are all told
expectTypeOf<KeyProblem<'o:<1>:<2>', [string]>>().toEqualTypeOf<NoArgument<'1'> | NoArgument<'2'>>();
expectTypeOf<KeyProblem<readonly ['a:<0>', 'b:<1>'], [string]>>().toEqualTypeOf<NoArgument<'1'>>();
expectTypeOf<KeyProblem<readonly [], [string]>>().toEqualTypeOf<`a lock needs at least one key`>();

// Functions
type WrongFunction = `the key function does not accept the arguments of this method, or does not return a string`;
expectTypeOf<KeyProblem<(order: Order) => string, [Order, number]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<() => string, [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<(orders: readonly Order[]) => string[], [Order[]]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<readonly ['a:<0.id>', (order: Order) => string], [Order]>>().toEqualTypeOf<Fine>();
expectTypeOf<KeyProblem<(id: string) => string, [Order]>>().toEqualTypeOf<WrongFunction>();
expectTypeOf<KeyProblem<(order: Order) => string, [order?: Order]>>().toEqualTypeOf<WrongFunction>();
expectTypeOf<KeyProblem<(order: Order, more: string) => string, [Order]>>().toEqualTypeOf<WrongFunction>();
expectTypeOf<KeyProblem<(order: Order) => number, [Order]>>().toEqualTypeOf<WrongFunction>();
expectTypeOf<KeyProblem<(order: Order) => Promise<string>, [Order]>>().toEqualTypeOf<WrongFunction>();
