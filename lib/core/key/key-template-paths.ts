/**
 * What the compiler checks of a decorator's key: that each placeholder of a template names something the method's
 * arguments have and that can stand in a key, and that a key function accepts those arguments.
 *
 * Each type answers `never` when all is well, otherwise a sentence, which the compiler then prints.
 */
import type { CallKey } from './call-key.js';

type Arguments = readonly unknown[];
type Primitive = string | number | bigint | boolean;
type Nothing = null | undefined;
type IsAny<T> = 0 extends 1 & T ? true : false;

/** Complaints about `Key` on a method with the parameters `Args`. */
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

/** Walks over the placeholders of a literal template; one that is only known as `string` is checked at run time. */
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

/** A tuple has the indexes it lists; an array, or a tuple that ends in `...rest`, has any. */
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

/** Follows a path into a value. What may be undefined is let through: a key is refused at the call, when it is. */
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

/** Each member of a union must be able to stand in a key. */
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

/** Of a type without known properties nothing is known; others must declare the toString that makes their text. */
type HasOwnText<Member> = keyof Member extends never ? true : 'toString' extends keyof Member ? true : false;

type Refused<Path extends string> =
  `<${Path}> cannot stand in a key: expected a string, number, bigint, boolean, Date or an object that declares toString`;
