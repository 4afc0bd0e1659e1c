/** The text of a script as a row of tokens, without spaces and comments. */
import { ServerError } from './lua-values.js';

interface Token {
  readonly kind: 'name' | 'word' | 'number' | 'string' | 'sign' | 'end';
  /** Of a string, what it stands for. */
  readonly text: string;
  readonly line: number;
}

const WORDS = new Set('and break do else elseif end false for function goto if in local nil not or repeat return then true until while'.split(' '));
const TOKEN = /(\s+|--(?!\[)[^\n]*)|([A-Za-z_]\w*)|(\d+(?:\.\d+)?(?:e[+-]?\d+)?)|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|(\.\.|[=~<>]=|[-+*/%#<>=(){}[\];,.])/y;
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', "'": "'", '"': '"' };

function tokensOf(source: string): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(source);
    if (found === null) throw new ServerError(`ERR Error compiling script: line ${line}: '${source.slice(at, at + 10)}' is not known here`);
    const [all, space, name, number, single, double] = found;
    if (name !== undefined) tokens.push({ kind: WORDS.has(name) ? 'word' : 'name', text: name, line });
    else if (number !== undefined) tokens.push({ kind: 'number', text: number, line });
    else if (single !== undefined || double !== undefined) tokens.push({ kind: 'string', text: unescaped(single ?? double ?? ''), line });
    else if (space === undefined) tokens.push({ kind: 'sign', text: all, line });
    line += all.split('\n').length - 1;
  }
  tokens.push({ kind: 'end', text: 'the end', line });
  return tokens;
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/gs, (_, sign: string) => {
    const meant = ESCAPES[sign];
    if (meant === undefined) throw new ServerError(`ERR Error compiling script: \\${sign} is not known here`);
    return meant;
  });
}

/** Goes through the tokens of a script from the first to the last. */
export class TokenReader {
  private at = 0;
  private readonly tokens: readonly Token[];

  constructor(source: string) {
    this.tokens = tokensOf(source);
  }

  /** The next token. */
  get next(): Token {
    return this.tokens[this.at] as Token;
  }

  take(): Token {
    const token = this.next;
    this.at++;
    return token;
  }

  /** Whether the next one is this word or sign. */
  is(text: string): boolean {
    const { next } = this;
    return next.text === text && (next.kind === 'word' || next.kind === 'sign');
  }

  /** Whether the one after the next is this sign. */
  isBefore(text: string): boolean {
    return this.tokens[this.at + 1]?.text === text;
  }

  /** Takes it if it is this one. */
  skip(text: string): boolean {
    const is = this.is(text);
    if (is) this.at++;
    return is;
  }

  expect(text: string): void {
    if (!this.skip(text)) this.fail(`'${text}' expected`);
  }

  name(): string {
    if (this.next.kind !== 'name') this.fail('a name expected');
    return this.take().text;
  }

  fail(why: string): never {
    const { text, line } = this.next;
    throw new ServerError(`ERR Error compiling script: line ${line}: ${why} near '${text}'`);
  }
}
