// Writes docs/api.md from the doc comments of everything that the entry points export. `--check` writes nothing and fails when a
// build would. An export, or a member of LockService or Lease, that has no doc comment is an error.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('..', import.meta.url));
const target = fileURLToPath(new URL('../docs/api.md', import.meta.url));
const ENTRIES = [
  ['nestjs-holdfast', 'lib/index.ts'],
  ['nestjs-holdfast/testing', 'lib/testing/index.ts'],
  ['nestjs-holdfast/board', 'lib/board/index.ts'],
  ['nestjs-holdfast/telemetry', 'lib/telemetry/index.ts'],
  ['nestjs-holdfast/terminus', 'lib/terminus/index.ts'],
];
/** Members that Nest or the language calls, and no application. What only this library calls is marked `@internal`. */
const CALLED_BY_OTHERS = ['onModuleInit', 'onModuleDestroy', 'onApplicationBootstrap', 'onApplicationShutdown', 'catch', 'prototype', '__constructor'];
/** Options with a table on a page of their own, which says what each means. */
const EXPLAINED_ON = {
  'options.md': ['LockModuleOptions', 'LockModuleExtras', 'LockOptions', 'LockedOptions', 'WithLockOptions'],
  'leading.md': ['LeadOptions'],
  'board.md': ['LockBoardOptions'],
};
/** Whose members must all be explained. */
const FULLY_EXPLAINED = ['LockService', 'Lease'];
const WIDTH = 120;

const program = ts.createProgram({
  rootNames: ENTRIES.map(([, file]) => `${root}${file}`),
  options: ts.parseJsonConfigFileContent(ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile).config, ts.sys, root).options,
});
const checker = program.getTypeChecker();
const unexplained = [];

function exportsOf(file) {
  const symbol = checker.getSymbolAtLocation(program.getSourceFile(`${root}${file}`));
  return checker.getExportsOfModule(symbol).map((each) => (each.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(each) : each));
}

function isOurs(declaration) {
  return relative(root, declaration.getSourceFile().fileName).startsWith('lib/');
}

function isPublic(declaration) {
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (ts.getCombinedModifierFlags(declaration) & hidden) === 0;
}

/** Members of an interface or a class, inherited ones too, as far as they are of this library and for applications. */
function membersOf(symbol) {
  const own = checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol));
  const statics = symbol.flags & ts.SymbolFlags.Class ? checker.getPropertiesOfType(checker.getTypeOfSymbol(symbol)) : [];
  return [...statics, ...own].filter((member) => {
    const [first] = member.declarations ?? [];
    return first !== undefined && isOurs(first) && isPublic(first) && !CALLED_BY_OTHERS.includes(member.name) && !isNameOfError(symbol, member) && !/@internal/.test(commentOf(member));
  });
}

/** Whether this says the name of the class once more. */
function isNameOfError({ name }, member) {
  return member.name === 'name' && name.endsWith('Error');
}

/** The declarations that a caller sees: with overloads, not the one that has the body. */
function seenDeclarations(symbol) {
  const all = symbol.declarations.filter((one) => isOurs(one) && one.kind !== ts.SyntaxKind.ModuleDeclaration);
  const overloads = all.filter((one) => ts.isFunctionLike(one) && one.body === undefined);
  return all.length > 1 && overloads.length > 0 ? overloads : all;
}

/** The text of a declaration without its body, its initial value, its decorators and the words that do not concern a caller. */
function signatureOf(declaration) {
  const source = declaration.getSourceFile().text;
  const last = declaration.modifiers?.filter(ts.isDecorator).at(-1);
  const start = last === undefined ? declaration.getStart() : last.end;
  const typed = ts.isPropertyDeclaration(declaration) && declaration.type !== undefined;
  const end = declaration.body?.pos ?? (typed ? declaration.type.end : declaration.end);
  const text = source.slice(start, end).replace(/\/\*\*[^]*?\*\//g, '').replace(/\s+/g, ' ').trim();
  return text.replace(/^(?:(?:export|override|async|default) )+/, '').replace(/^static (?:override )?/, 'static ').replace(/[;,]$/, '');
}

/** The signature as a block of code, broken where it is long. */
function codeOf(declaration) {
  if (ts.isTypeAliasDeclaration(declaration)) return declaration.getText().replace(/^export /, '');
  const text = signatureOf(declaration);
  if (text.length <= WIDTH) return text;
  return text.replace(/^([^(]*\()(.*)(\): .*)$/, (_, head, inner, tail) => `${head}\n${parted(inner)}\n${tail}`);
}

/** The parameters, one a line. */
function parted(inner) {
  const parts = [''];
  let depth = 0;
  for (const char of inner.trim().replace(/,$/, '')) {
    if ('(<{['.includes(char)) depth += 1;
    if (')>}]'.includes(char)) depth -= 1;
    if (char === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += char;
  }
  return parts.map((part) => `  ${part.trim()},`).join('\n');
}

/** The text of the doc comment above a declaration, without its stars. The compiler would read `@Locked` in it as a tag. */
function commentOf(symbol) {
  const comments = seenDeclarations(symbol).flatMap((one) => ts.getJSDocCommentsAndTags(documented(one)).filter(ts.isJSDoc));
  const text = comments.at(0) === undefined ? '' : comments.filter(({ parent }) => parent === comments[0].parent).at(-1).getText();
  const lines = text.replace(/^\/\*\*\s?|\s*\*\/$/g, '').split('\n').map((line) => line.replace(/^\s*\* ?/, ''));
  return lines.join('\n').trim().replace(/\{@link\s+(?:\w+\.)?(\w+)\s*\}/g, '`$1`');
}

/** The node that has the comment: for `const x` the statement. */
function documented(declaration) {
  return ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
}

function wrap(text, indent = '') {
  const lines = [''];
  for (const word of text.split(/\s+/).filter((one) => one !== '')) {
    if (lines.at(-1) !== '' && (indent + lines.at(-1) + word).length >= WIDTH) lines.push('');
    lines[lines.length - 1] += lines.at(-1) === '' ? word : ` ${word}`;
  }
  return lines.join(`\n${indent}`);
}

/** The paragraphs of a text. One that is indented by four spaces is code. */
function paragraphs(text) {
  return text.split(/\n\s*\n/).map((part) => (/^ {4}/.test(part) ? `\`\`\`ts\n${part.replace(/^ {4}/gm, '').trimEnd()}\n\`\`\`` : wrap(part)));
}

/** A comment as paragraphs; @throws and @default become sentences. */
function docsOf(symbol, required) {
  const [text = '', ...tags] = commentOf(symbol).split(/\s*@(?=(?:throws|default)\s)/);
  if (text === '' && required) unexplained.push(required);
  const said = tags.map((tag) => wrap(tag.replace(/^throws/, 'Throws').replace(/^default/, 'Default:').replace(/\.?$/, '.')));
  return [...(text === '' ? [] : paragraphs(text)), ...said];
}

function block(declarations) {
  return `\`\`\`ts\n${declarations.map(codeOf).join('\n')}\n\`\`\``;
}

function requiredOf(owner, member) {
  return FULLY_EXPLAINED.includes(owner.name) ? `${owner.name}.${member.name}` : undefined;
}

/** A member under a heading of its own, for what has methods. */
function memberText(owner, member) {
  return [`#### ${owner.name}.${member.name}`, block(seenDeclarations(member)), ...docsOf(member, requiredOf(owner, member))];
}

/** A member as an item of a list, for what is no method. */
function itemText(owner, member, shorten) {
  const code = seenDeclarations(member).map(signatureOf).join(' ').replace(/^(?:(?:declare|abstract|readonly|get) )+/, '').replace(/^(\w+)\(\)/, '$1').replace(/ \| undefined$/, '');
  const docs = shorten(docsOf(member, requiredOf(owner, member)));
  return `- ${wrap(docs.length === 0 ? `\`${code}\`` : `\`${code}\`: ${docs.join(' ')}`, '  ')}`;
}

function pageOf(owner) {
  return Object.keys(EXPLAINED_ON).find((page) => EXPLAINED_ON[page].includes(owner.name));
}

/** The beginning of a text, up to the first sentence that ends after some ten words, and what is the default. The whole text is in the types. */
function inShort([text = '', ...others]) {
  const head = /^[^]{50,}?[.](?=\s|$)/.exec(text)?.[0] ?? text;
  return [head, ...others.filter((one) => one.startsWith('Default:'))].filter((one) => one !== '');
}

/** The exported type that an inherited member is explained with; undefined for a member that is explained here. */
function explainedBy(owner, member, exported) {
  const home = checker.getSymbolAtLocation(member.declarations[0].parent.name);
  if (home === owner || pageOf(owner) !== undefined && !exported.has(home)) return undefined;
  return exported.has(home) ? home : [...exported].find((one) => pageOf(one) !== undefined && membersOf(one).some(({ declarations }) => declarations[0] === member.declarations[0]));
}

function inheritedText(owner, members, exported) {
  const homes = new Map();
  for (const member of members) {
    const home = explainedBy(owner, member, exported);
    if (home) homes.set(home, [...(homes.get(home) ?? []), member.name]);
  }
  const links = [...homes].map(([home, names]) => `${someOf(home, names, exported)} [${home.name}](#${home.name.toLowerCase()})`);
  return links.length === 0 ? [] : [wrap(`And ${links.join('; ')}.`)];
}

/** These members of a type, or, where that is shorter, all but the others. */
function someOf(home, names, exported) {
  const others = membersOf(home).filter((member) => !explainedBy(home, member, exported) && !names.includes(member.name));
  const listed = (some) => some.map((name) => `\`${name}\``).join(', ');
  if (others.length === 0) return 'all of';
  return others.length < names.length ? `all but ${listed(others.map(({ name }) => name))} of` : `${listed(names)} of`;
}

function isMethod(member) {
  return seenDeclarations(member).some((one) => ts.isMethodDeclaration(one) || ts.isMethodSignature(one));
}

function membersText(owner, exported) {
  const members = membersOf(owner);
  const own = members.filter((member) => !explainedBy(owner, member, exported));
  const page = pageOf(owner);
  if (page !== undefined) {
    const names = own.map(({ name }) => `\`${name}\``).join(', ');
    return [wrap(`[${page[0].toUpperCase()}${page.slice(1, -3)}](${page}) says what each means: ${names}.`), ...inheritedText(owner, members, exported)];
  }
  const [methods, values] = [own.filter(isMethod), own.filter((member) => !isMethod(member))];
  const items = values.map((member) => itemText(owner, member, methods.length === 0 ? inShort : (docs) => docs)).join('\n');
  return [...(items === '' ? [] : [items]), ...methods.flatMap((member) => memberText(owner, member)), ...inheritedText(owner, members, exported)];
}

function kindOf(symbol) {
  if (symbol.flags & ts.SymbolFlags.Class) return 'class';
  if (symbol.flags & ts.SymbolFlags.Interface) return 'interface';
  return symbol.flags & ts.SymbolFlags.Function ? 'function' : 'type';
}

function exportText(symbol, exported) {
  const kind = kindOf(symbol);
  const isBox = kind === 'class' || kind === 'interface';
  const code = isBox ? [] : [block(seenDeclarations(symbol))];
  return [`### ${symbol.name}`, ...code, ...docsOf(symbol, symbol.name), ...(isBox ? membersText(symbol, exported) : [])];
}

function pageText() {
  const parts = [
    '# API',
    wrap(
      'Everything that the package exports. `npm run build:api` makes this page of the doc comments; nobody edits it. Of an option it has ' +
        'the beginning: the types, which an editor shows, have all of it. The [other pages](README.md) explain what belongs together.',
    ),
  ];
  const exported = new Set(ENTRIES.flatMap(([, file]) => exportsOf(file)));
  for (const [entry, file] of ENTRIES) parts.push(`## ${entry}`, ...exportsOf(file).flatMap((symbol) => exportText(symbol, exported)));
  return `${parts.join('\n\n')}\n`;
}

function main(args) {
  const text = pageText();
  if (unexplained.length > 0) throw new Error(`${unexplained.join(', ')}: no doc comment says what it is`);
  if (existsSync(target) && readFileSync(target, 'utf8') === text) return;
  if (args.includes('--check')) throw new Error('docs/api.md is not what the doc comments say: run npm run build:api and commit it');
  writeFileSync(target, text);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
