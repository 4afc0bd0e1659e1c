/**
 * Turns the text of a script into a JavaScript function that does the same: the part of Lua 5.1 that the scripts are
 * written in. Whatever else stands in a text is refused, so nothing is done otherwise than meant.
 */
import { LuaExpressions, number, one, test, type Code } from './lua-expressions.js';
import { library as ownLibrary } from './lua-library.js';
import { LuaNames } from './lua-names.js';
import { TokenReader } from './lua-tokens.js';
import { bytesOf, operations, type LuaFunction, type LuaTable, type LuaValue } from './lua-values.js';

export type CompiledScript = (KEYS: LuaTable, ARGV: LuaTable) => readonly LuaValue[];

/** @param given further functions for the script, by name */
export function compile(source: string, given: Readonly<Record<string, LuaFunction>>): CompiledScript {
  const library = { ...ownLibrary, ...given };
  const js = new ScriptCompiler(bytesOf(source), new Set(Object.keys(library))).compile();
  const build = new Function('library', 'operations', `'use strict';\nconst { ${Object.keys(operations).join(', ')} } = operations;\n${js}`);
  return build(library, operations) as CompiledScript;
}

class ScriptCompiler {
  private readonly tokens: TokenReader;
  private readonly names: LuaNames;
  private readonly expressions: LuaExpressions;

  constructor(source: string, library: ReadonlySet<string>) {
    this.tokens = new TokenReader(source);
    this.names = new LuaNames(library);
    this.expressions = new LuaExpressions(this.tokens, this.names);
  }

  compile(): string {
    const globals = [this.names.declare('KEYS'), this.names.declare('ARGV')];
    const body = this.names.body(() => this.statements());
    if (this.tokens.next.kind !== 'end') this.tokens.fail('the end expected');
    return `return (${globals.join(', ')}) => {\n${body}return [];\n};`;
  }

  private statements(): string {
    let js = '';
    while (!['end', 'else', 'elseif'].includes(this.tokens.next.text) && this.tokens.next.kind !== 'end') js += `${this.statement()}\n`;
    return js;
  }

  /** Statements in braces, with names of their own. */
  private block(prepare: () => string = () => ''): string {
    return `{\n${this.names.block(() => prepare() + this.statements())}}`;
  }

  private statement(): string {
    const { tokens } = this;
    if (tokens.skip('local')) return tokens.skip('function') ? this.localFunction() : this.local();
    if (tokens.skip('if')) return this.conditional();
    if (tokens.skip('for')) return this.loop();
    if (tokens.skip('while')) return this.whileLoop();
    if (tokens.skip('break')) return 'break;';
    if (tokens.skip('return')) return this.return();
    return this.assignmentOrCall();
  }

  private localFunction(): string {
    const { tokens, names } = this;
    const name = names.declare(tokens.name());
    let params: string[] = [];
    const body = names.body(() => {
      tokens.expect('(');
      params = tokens.is(')') ? [] : this.nameList();
      tokens.expect(')');
      return this.statements();
    });
    tokens.expect('end');
    return `let ${name} = (${params.join(', ')}) => {\n${body}return [];\n};`;
  }

  /** Names that are declared here. */
  private nameList(): string[] {
    return this.rawNames().map((name) => this.names.declare(name));
  }

  private rawNames(): string[] {
    const names = [this.tokens.name()];
    while (this.tokens.skip(',')) names.push(this.tokens.name());
    return names;
  }

  private local(): string {
    const { tokens, names, expressions } = this;
    const given = this.rawNames();
    const values = tokens.skip('=') ? expressions.list() : { items: [], js: '' };
    const locals = given.map((name) => names.declare(name));
    if (values.items.length === 0) return `let ${locals.join(', ')};`;
    if (locals.length === 1 && values.items.length === 1) return `let ${locals[0]} = ${one(values.items[0] as Code)};`;
    const all = names.temporary();
    return `${all} = [${values.js}];\nlet ${locals.map((local, at) => `${local} = ${all}[${at}]`).join(', ')};`;
  }

  private conditional(): string {
    const { tokens, expressions } = this;
    const condition = test(expressions.parse());
    tokens.expect('then');
    const then = `if (${condition}) ${this.block()}`;
    if (tokens.skip('elseif')) return `${then} else ${this.conditional()}`;
    const otherwise = tokens.skip('else') ? ` else ${this.block()}` : '';
    tokens.expect('end');
    return then + otherwise;
  }

  private whileLoop(): string {
    const condition = test(this.expressions.parse());
    return `while (${condition}) ${this.doBlock()}`;
  }

  private doBlock(prepare?: () => string): string {
    this.tokens.expect('do');
    const js = this.block(prepare);
    this.tokens.expect('end');
    return js;
  }

  private loop(): string {
    const given = this.rawNames();
    return this.tokens.skip('=') ? this.counting(given[0] as string) : this.iterating(given);
  }

  private counting(name: string): string {
    const { tokens, names, expressions } = this;
    const [from, to, step] = expressions.list().items;
    if (from === undefined || to === undefined || step?.js.startsWith('-')) return tokens.fail('a loop that counts up expected');
    const [at, limit] = [names.temporary(), names.temporary()];
    const head = `for (${at} = ${number(from)}, ${limit} = ${number(to)}; ${at} <= ${limit}; ${at} += ${step === undefined ? '1' : number(step)})`;
    return `${head} ${this.doBlock(() => `let ${names.declare(name)} = ${at};\n`)}`;
  }

  private iterating(given: readonly string[]): string {
    const { tokens, names, expressions } = this;
    tokens.expect('in');
    const [all, found] = [names.temporary(), names.temporary()];
    const start = `${all} = [${expressions.list().js}];`;
    const head = `while ((${found} = functionOf(${all}[0])(${all}[1], ${all}[2])) && (${all}[2] = ${found}[0]) !== undefined)`;
    return `${start}\n${head} ${this.doBlock(() => `let ${given.map((name, at) => `${names.declare(name)} = ${found}[${at}]`).join(', ')};\n`)}`;
  }

  private return(): string {
    const { tokens, expressions } = this;
    if (['end', 'else', 'elseif'].includes(tokens.next.text) || tokens.next.kind === 'end') return 'return [];';
    const { items, js } = expressions.list();
    const [first] = items;
    return items.length === 1 && first?.many ? `return ${first.js};` : `return [${js}];`;
  }

  private assignmentOrCall(): string {
    const { tokens, names, expressions } = this;
    const targets = [expressions.suffixed()];
    while (tokens.skip(',')) targets.push(expressions.suffixed());
    if (!tokens.skip('=')) return targets.length === 1 && targets[0]?.many ? `${targets[0].js};` : tokens.fail('a statement expected');
    const values = expressions.list();
    const [only] = values.items;
    if (targets.length === 1 && values.items.length === 1) return this.assign(targets[0] as Code, one(only as Code));
    // What is assigned to is looked up before anything is assigned.
    const all = names.temporary();
    const places = targets.map((target) => this.place(target));
    return `${places.map(({ look }) => look).join('')}${all} = [${values.js}];\n${places.map(({ code }, at) => this.assign(code, `${all}[${at}]`)).join('\n')}`;
  }

  private place(code: Code): { readonly look: string; readonly code: Code } {
    const { target } = code;
    if (target === undefined || target === 'name') return { look: '', code };
    const [table, key] = [this.names.temporary(), this.names.temporary()];
    return { look: `${table} = ${target[0]};\n${key} = ${target[1]};\n`, code: { js: code.js, target: [table, key] } };
  }

  private assign({ js, target }: Code, value: string): string {
    if (target === undefined) return this.tokens.fail('nothing can be assigned to this,');
    return target === 'name' ? `${js} = ${value};` : `tableOf(${target[0]}).set(${target[1]}, ${value});`;
  }
}
