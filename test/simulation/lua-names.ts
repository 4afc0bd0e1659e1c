/** The names of a script: which local a name means where it stands, and what is given from outside. */
export class LuaNames {
  private scopes: Map<string, string>[] = [new Map()];
  private count = 0;
  /** Of the functions around, the innermost last. */
  private readonly temporaries: string[][] = [[]];

  constructor(private readonly library: ReadonlySet<string>) {}

  /** A new local; a name may be given again where it stands already. */
  declare(name: string): string {
    const local = `${name}$${++this.count}`;
    this.scopes.at(-1)!.set(name, local);
    return local;
  }

  find(name: string): string | undefined {
    return this.scopes.findLast((scope) => scope.has(name))?.get(name);
  }

  libraryOf(name: string): string | undefined {
    return this.library.has(name) ? `library['${name}']` : undefined;
  }

  /** A place of the function around for a value that is needed twice. */
  temporary(): string {
    const name = `$${++this.count}`;
    this.temporaries.at(-1)!.push(name);
    return name;
  }

  /** What is declared inside is not known outside. */
  block(inside: () => string): string {
    this.scopes.push(new Map());
    const js = inside();
    this.scopes.pop();
    return js;
  }

  /** A block with temporaries of its own, which it declares. */
  body(inside: () => string): string {
    this.temporaries.push([]);
    const js = this.block(inside);
    const names = this.temporaries.pop()!;
    return names.length === 0 ? js : `let ${names.join(', ')};\n${js}`;
  }
}
