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

/** Checks the first part of a path, which is the position of an argument, and what follows it. */
type PathProblem<Path extends string, Args extends Arguments> = FirstOf<Path> extends `${bigint}`
  ? PartOf<Args, FirstOf<Path>> extends [infer Value]
    ? InnerProblem<Path, RestOf<Path>, Value>
    : `<${Path}> names an argument that this method does not have`
  : `<${Path}> does not start with the position of an argument, as in <0> or <0.id>`;

/** Follows a path into the type of a value. A part that may be undefined is accepted: a call in which it is undefined is refused. */
type InnerProblem<Path extends string, Inner extends string | false, Value> = unknown extends Value
  ? never
  : Inner extends string
    ? PartOf<NonNullable<Value>, FirstOf<Inner>> extends [infer Part]
      ? InnerProblem<Path, RestOf<Inner>, Part>
      : `<${Path}> names a property '${FirstOf<Inner>}' that the argument does not have`
    : ValueProblem<Path, Value>;

type FirstOf<Path extends string> = Path extends `${infer Part}.${string}` ? Part : Path;
type RestOf<Path extends string> = Path extends `${string}.${infer Inner}` ? Inner : false;

/**
 * What a value has under this name, as a list of one; an empty list when it has no such part, or one in a union has not. A tuple has the
 * positions that it lists; an array, or a tuple that ends in `...rest`, has any.
 */
type PartOf<Value, Name extends string> = IsAny<Value> extends true
  ? [Value]
  : Value extends Arguments
    ? Name extends `${infer Position extends number}`
      ? HasPosition<Value, Name> extends true
        ? [Value[Position]]
        : []
      : NamedPart<Value, Name>
    : Name extends keyof Value
      ? [Value[Name]]
      : Name extends `${infer Position extends number}`
        ? NamedPart<Value, Position>
        : [];

type NamedPart<Value, Name> = Name extends keyof Value ? [Value[Name]] : [];

type HasPosition<List extends Arguments, Position extends string> = number extends List['length']
  ? Position extends `-${string}`
    ? false
    : true
  : Position extends keyof List
    ? true
    : false;

/** Checks that a value can stand in a key; of a union each member must. */
type ValueProblem<Path extends string, Value> = [NonNullable<Value>] extends [never]
  ? `<${Path}> is always ${Value extends null ? 'null' : 'undefined'}`
  : MemberProblem<Path, Exclude<Value, Nothing>>;

type MemberProblem<Path extends string, Member> = Member extends Primitive
  ? never
  : Member extends symbol | Arguments | PromiseLike<unknown> | ((...args: never[]) => unknown) | Error
    ? Refused<Path>
    : HasOwnText<Member> extends true
      ? never
      : Refused<Path>;

/** True if a type may make its own text: it declares toString, or it has no known properties, so that nothing is known about it. */
type HasOwnText<Member> = keyof Member extends never ? true : 'toString' extends keyof Member ? true : false;

type Refused<Path extends string> =
  `<${Path}> cannot stand in a key: expected a string, number, bigint, boolean, Date or an object that declares toString`;
