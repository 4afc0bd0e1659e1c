// Wraps the prose of the docs at 120 characters. Only a paragraph or an item with a longer line is set anew; headings, tables, code
// and what is within the width stay as they are. With --check it writes nothing and names the files that are not wrapped.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

const WIDTH = 120;
/** What must not begin a line, because Markdown would read it as the start of something else. */
const STARTS_SOMETHING = /^(?:[-+*>]|#+|\d+[.)])$/;

export const WRAPPED_PAGES = [
  ...['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/README.md', 'lib/core/README.md', 'sample-app/README.md'],
  // npm run bench writes the benchmarks.
  ...readdirSync('docs', { recursive: true }).filter((name) => name.endsWith('.md') && name !== 'benchmarks.md').map((name) => `docs/${name}`),
];

/** The text with every paragraph wrapped. */
export function wrapped(text) {
  const out = [];
  let block = [];
  let inCode = false;
  const flush = () => {
    out.push(...(block.some((line) => line.length > WIDTH) ? wrapBlock(block) : block));
    block = [];
  };
  for (const line of text.split('\n')) {
    if (line.startsWith('```')) inCode = !inCode;
    const isProse = !inCode && !/^(?:```|\||#|!\[|\s*$)/.test(line) && !(/^ {4}/.test(line) && block.length === 0);
    if (!isProse) {
      flush();
      out.push(line);
    } else {
      if (/^\s*(?:[-*+]|\d+\.) /.test(line)) flush();
      block.push(line);
    }
  }
  flush();
  return out.join('\n');
}

function wrapBlock(lines) {
  const [, start = '', bullet = ''] = /^(\s*)((?:[-*+]|\d+\.) +)?/.exec(lines[0]);
  const indent = `${start}${' '.repeat(bullet.length)}`;
  const words = unbreakable(lines.map((line, n) => (n === 0 ? line.slice(start.length + bullet.length) : line.trim())).join(' '));
  const made = [];
  let line = [];
  const lengthOf = (parts) => indent.length + parts.join(' ').length;
  for (const word of words) {
    if (line.length > 0 && lengthOf([...line, word]) > WIDTH) {
      const carried = STARTS_SOMETHING.test(word) && line.length > 1 ? [line.pop()] : [];
      made.push(line.join(' '));
      line = carried;
    }
    line.push(word);
  }
  made.push(line.join(' '));
  return made.map((one, n) => (n === 0 ? `${start}${bullet}` : indent) + one);
}

/** The words; a piece of code of several words, or a link with its address, is one. */
function unbreakable(text) {
  return text.match(/(?:``.+?``|`[^`]*`|\]\([^)]*\)|[^\s`])+/g) ?? [];
}

if (import.meta.filename === process.argv[1]) {
  const late = WRAPPED_PAGES.filter((page) => wrapped(readFileSync(page, 'utf8')) !== readFileSync(page, 'utf8'));
  if (!process.argv.includes('--check')) for (const page of late) writeFileSync(page, wrapped(readFileSync(page, 'utf8')));
  else if (late.length > 0) {
    console.error(`Lines of prose are longer than ${WIDTH} in ${late.join(', ')}. Run npm run wrap:docs.`);
    process.exitCode = 1;
  }
}
