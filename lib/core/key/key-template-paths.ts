/**
 * The types by which the compiler checks the key of a decorator: each placeholder of a template must name an argument, or a property
 * of one, that can stand in a key, and a key function must accept the arguments of the method.
 *
 * Each type that ends in `Problem` is `never` for a valid key, and otherwise a sentence, which the compiler prints.
 */
import type { CallKey } from './call-key.js';

type Arguments = readonly unknown[];
type Primitive = string | number | bigint | boolean;
type Nothing = null | undefined;
type IsAny<T> = 0 extends 1 & T ? true : false;

/** What is wrong with `Key` on a method with the parameters `Args`. */
export type KeyProblem<Key, Args extends Arguments> = Key extends string
  ? TemplateProblem<Key, Key, Args>
  : Key extends (...args: never[]) => unknown
    ? FunctionProblem<Key, Args>
    : Key extends readonly []
      ? `a lock needs at least one key`
      : Key extends readonly (infer Part extends CallKey)[]
        ? Part extends unknown
          ? KeyProblem<Part, Args>
          : never
        : never;

type FunctionProblem<Key, Args extends Arguments> = Key extends (...args: Args) => string | readonly string[]
  ? never
  : `the key function does not accept the arguments of this method, or does not return a string`;

/** Checks each placeholder of a literal template. A template that the compiler knows only as `string` is checked at run time. */
type TemplateProblem<Template extends string, Rest extends string, Args extends Arguments> = string extends Rest
  ? never
  : Rest extends `${string}<${infer AfterOpen}`
    ? AfterOpen extends `<${infer AfterEscaped}`
      ? TemplateProblem<Template, AfterEscaped, Args>
      : AfterOpen extends `${infer Path}>${infer After}`
        ? PathProblem<Path, Args> | TemplateProblem<Template, After, Args>
        : `'${Template}' has a '<' that is not closed; write '<<' for a literal '<'`
    : never;

type PathProblem<Path extends string, Args extends Arguments> = Path extends `${infer Index}.${infer Inner}`
  ? Index extends `${bigint}`
    ? HasIndex<Args, Index> extends true
      ? InnerProblem<Path, Inner, ArgumentAt<Args, Index>>
      : NoArgument<Path>
    : NotAnIndex<Path>
  : Path extends `${bigint}`
    ? HasIndex<Args, Path> extends true
      ? ValueProblem<Path, ArgumentAt<Args, Path>>
      : NoArgument<Path>
    : NotAnIndex<Path>;

type NoArgument<Path extends string> = `<${Path}> names an argument that this method does not have`;
type NotAnIndex<Path extends string> = `<${Path}> does not start with the position of an argument, as in <0> or <0.id>`;

/** Whether the list has this index. A tuple has the indexes that it lists; an array, or a tuple that ends in `...rest`, has any. */
type HasIndex<List extends Arguments, Index extends string> = IsAny<List> extends true
  ? true
  : number extends List['length']
    ? Index extends `-${string}`
      ? false
      : true
    : Index extends keyof List
      ? true
      : false;

type ArgumentAt<List extends Arguments, Index extends string> = Index extends `${infer Position extends number}`
  ? List[Position]
  : never;

/** Follows a path into the type of a value. A part that may be undefined is accepted: a call in which it is undefined is refused. */
type InnerProblem<Path extends string, Inner extends string, Value> = IsAny<Value> extends true
  ? never
  : unknown extends Value
    ? never
    : Inner extends `${infer Segment}.${infer Deeper}`
      ? HasSegment<NonNullable<Value>, Segment> extends true
        ? InnerProblem<Path, Deeper, SegmentOf<NonNullable<Value>, Segment>>
        : `<${Path}> names a property '${Segment}' that the argument does not have`
      : HasSegment<NonNullable<Value>, Inner> extends true
        ? ValueProblem<Path, SegmentOf<NonNullable<Value>, Inner>>
        : `<${Path}> names a property '${Inner}' that the argument does not have`;

type HasSegment<Value, Segment extends string> = Value extends Arguments
  ? Segment extends `${number}`
    ? HasIndex<Value, Segment>
    : Segment extends keyof Value
      ? true
      : false
  : Segment extends keyof Value
    ? true
    : Segment extends `${infer Position extends number}`
      ? Position extends keyof Value
        ? true
        : false
      : false;

type SegmentOf<Value, Segment extends string> = Value extends Arguments
  ? Segment extends `${infer Position extends number}`
    ? Value[Position]
    : Segment extends keyof Value
      ? Value[Segment]
      : never
  : Segment extends keyof Value
    ? Value[Segment]
    : Segment extends `${infer Position extends number}`
      ? Position extends keyof Value
        ? Value[Position]
        : never
      : never;

/** Checks that a value can stand in a key; of a union each member must. */
type ValueProblem<Path extends string, Value> = IsAny<Value> extends true
  ? never
  : unknown extends Value
    ? never
    : [NonNullable<Value>] extends [never]
      ? `<${Path}> is always ${Value extends null ? 'null' : 'undefined'}`
      : MemberProblem<Path, Exclude<Value, Nothing>>;

type MemberProblem<Path extends string, Member> = Member extends Primitive
  ? never
  : Member extends symbol | Arguments | PromiseLike<unknown> | ((...args: never[]) => unknown) | Error
    ? Refused<Path>
    : HasOwnText<Member> extends true
      ? never
      : Refused<Path>;

/** Whether a type may make its own text: it declares toString, or it has no known properties, so that nothing is known about it. */
type HasOwnText<Member> = keyof Member extends never ? true : 'toString' extends keyof Member ? true : false;

type Refused<Path extends string> =
  `<${Path}> cannot stand in a key: expected a string, number, bigint, boolean, Date or an object that declares toString`;
