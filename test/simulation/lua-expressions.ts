/** Turns the expressions of a script into JavaScript. */
import type { LuaNames } from './lua-names.js';
import type { TokenReader } from './lua-tokens.js';

/** JavaScript that stands for an expression. */
export interface Code {
  readonly js: string;
  /** What it always is, where that is known: then nothing has to be looked at when it runs. */
  readonly always?: 'boolean' | 'number' | 'string' | undefined;
  /** Any number of values: an array. */
  readonly many?: boolean;
  /** The same as a condition. */
  readonly test?: string;
  /** Something can be assigned to it: a name, or a field of a table. */
  readonly target?: 'name' | readonly [table: string, key: string];
}

/** How tightly binary operators bind; `..` is the one that binds to the right. */
const BINDS: Readonly<Record<string, number>> = {
  or: 1, and: 2, '<': 3, '>': 3, '<=': 3, '>=': 3, '~=': 3, '==': 3, '..': 4, '+': 5, '-': 5, '*': 6, '/': 6, '%': 6,
};
const UNARY_BINDS = 7;

export class LuaExpressions {
  constructor(private readonly tokens: TokenReader, private readonly names: LuaNames) {}

  /** One expression, of operators that bind tighter than `least`. */
  parse(least = 0): Code {
    let left = this.unary();
    for (;;) {
      const { text, kind } = this.tokens.next;
      const binds = kind === 'word' || kind === 'sign' ? BINDS[text] : undefined;
      if (binds === undefined || binds <= least) return left;
      this.tokens.take();
      left = this.binary(text, left, this.parse(text === '..' ? binds - 1 : binds));
    }
  }

  /** One or more, as the items of an array. */
  list(): { readonly items: readonly Code[]; readonly js: string } {
    const items = [this.parse()];
    while (this.tokens.skip(',')) items.push(this.parse());
    return { items, js: items.map((item, at) => (item.many && at === items.length - 1 ? `...${item.js}` : one(item))).join(', ') };
  }

  /** A name with what is behind it: fields and calls. */
  suffixed(): Code {
    const { tokens } = this;
    let code = this.primary();
    for (;;) {
      if (tokens.skip('.')) code = field(code, JSON.stringify(tokens.name()));
      else if (tokens.skip('[')) {
        code = field(code, one(this.parse()));
        tokens.expect(']');
      } else if (tokens.skip('(')) code = this.call(code);
      else return code;
    }
  }

  private call(callee: Code): Code {
    const { tokens } = this;
    const args = tokens.is(')') ? '' : this.list().js;
    tokens.expect(')');
    return { js: `${callee.js.startsWith("library['") ? callee.js : `functionOf(${one(callee)})`}(${args})`, many: true };
  }

  private primary(): Code {
    const { tokens, names } = this;
    if (tokens.skip('(')) {
      const inner = this.parse();
      tokens.expect(')');
      return { ...inner, js: one(inner), many: false };
    }
    const name = tokens.name();
    const local = names.find(name);
    if (local !== undefined) return { js: local, target: 'name' };
    const full = tokens.skip('.') ? `${name}.${tokens.name()}` : name;
    // As the server does, only where it comes to it: a shared function may not be called by every script.
    return { js: names.libraryOf(full) ?? `missing(${JSON.stringify(full)})` };
  }

  private unary(): Code {
    const { tokens } = this;
    if (tokens.skip('not')) {
      const js = `!${test(this.parse(UNARY_BINDS))}`;
      return { js, test: js, always: 'boolean' };
    }
    if (tokens.skip('-')) return { js: `-${number(this.parse(UNARY_BINDS))}`, always: 'number' };
    if (tokens.skip('#')) return { js: `lengthOf(${one(this.parse(UNARY_BINDS))})`, always: 'number' };
    return this.simple();
  }

  private simple(): Code {
    const { tokens } = this;
    const { kind, text } = tokens.next;
    if (kind === 'number') return { js: tokens.take().text, always: 'number' };
    if (kind === 'string') return { js: JSON.stringify(tokens.take().text), always: 'string' };
    if (tokens.skip('nil')) return { js: 'undefined' };
    if (tokens.skip('true') || tokens.skip('false')) return { js: text, test: text, always: 'boolean' };
    return tokens.skip('{') ? this.table() : this.suffixed();
  }

  private table(): Code {
    const { tokens } = this;
    const items: Code[] = [];
    const fields: string[] = [];
    while (!tokens.skip('}')) {
      const item = this.entry(fields);
      if (item !== undefined) items.push(item);
      if (!tokens.skip(',') && !tokens.is('}')) tokens.fail("'}' expected");
    }
    const list = items.map((item, at) => (item.many && at === items.length - 1 ? `...${item.js}` : one(item)));
    return { js: fields.length === 0 ? `new LuaTable([${list.join(', ')}])` : `newTable([${list.join(', ')}], [${fields.join(', ')}])` };
  }

  /** An item of the list, unless it is a field. */
  private entry(fields: string[]): Code | undefined {
    const { tokens } = this;
    if (tokens.skip('[')) {
      const key = one(this.parse());
      tokens.expect(']');
      tokens.expect('=');
      fields.push(key, one(this.parse()));
      return undefined;
    }
    if (tokens.next.kind !== 'name' || !tokens.isBefore('=')) return this.parse();
    const key = JSON.stringify(tokens.name());
    tokens.expect('=');
    fields.push(key, one(this.parse()));
    return undefined;
  }

  private binary(operator: string, left: Code, right: Code): Code {
    switch (operator) {
      case 'or':
        return this.either(left, right, '||');
      case 'and':
        return this.either(left, right, '&&');
      case '==':
        return condition(`${one(left)} === ${one(right)}`);
      case '~=':
        return condition(`${one(left)} !== ${one(right)}`);
      case '<':
        return condition(`isLess(${one(left)}, ${one(right)})`);
      case '>':
        return condition(`isLess(${one(right)}, ${one(left)})`);
      case '<=':
        return condition(`isAtMost(${one(left)}, ${one(right)})`);
      case '>=':
        return condition(`isAtMost(${one(right)}, ${one(left)})`);
      case '..':
        return { js: `(${string(left)} + ${string(right)})`, always: 'string' };
      case '%':
        return { js: `modulo(${number(left)}, ${number(right)})`, always: 'number' };
      default:
        return { js: `(${number(left)} ${operator} ${number(right)})`, always: 'number' };
    }
  }

  private either(left: Code, right: Code, operator: '||' | '&&'): Code {
    const both = `(${test(left)} ${operator} ${test(right)})`;
    const always = left.always === right.always ? left.always : undefined;
    if (always === 'boolean') return condition(both);
    const kept = this.names.temporary();
    const [whenTrue, whenFalse] = operator === '&&' ? [one(right), kept] : [kept, one(right)];
    return { js: `(isTrue(${kept} = ${one(left)}) ? ${whenTrue} : ${whenFalse})`, test: both, always };
  }
}

/** Its first value. */
export function one(code: Code): string {
  return code.many ? `${code.js}[0]` : code.js;
}

export function test(code: Code): string {
  return code.test ?? `isTrue(${one(code)})`;
}

export function number(code: Code): string {
  return code.always === 'number' ? code.js : `numberOf(${one(code)})`;
}

const string = (code: Code): string => code.always === 'string' ? code.js : `stringOf(${one(code)})`;

const condition = (js: string): Code => ({ js: `(${js})`, test: `(${js})`, always: 'boolean' });

const field = (table: Code, key: string): Code => ({ js: `tableOf(${one(table)}).get(${key})`, target: [one(table), key] });
