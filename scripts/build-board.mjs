// Puts the files of lib/board/page into page.generated.ts, so that no file is read at run time and no bundler is needed.
// `--check` writes nothing and fails when a build would.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The text of the module that stands for all files of a folder. */
export function packFolder(dir) {
  const files = readdirSync(dir).sort();
  const entries = files.map((file) => `  ${quote(file)}:\n${lines(readFileSync(join(dir, file), 'utf8'))},`);
  return `/** Made by scripts/build-board.mjs from the files in page/; never edited. */\n\nexport const PAGE_FILES: Readonly<Record<string, string>> = {\n${entries.join('\n')}\n};\n`;
}

function lines(text) {
  return text.match(/[^\n]*\n|[^\n]+$/g).map((line) => `    ${quote(line)}`).join(' +\n');
}

function quote(text) {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const source = fileURLToPath(new URL('../lib/board/page', import.meta.url));
  const target = fileURLToPath(new URL('../lib/board/page.generated.ts', import.meta.url));
  const made = packFolder(source);
  const present = existsSync(target) ? readFileSync(target, 'utf8') : '';
  if (made === present) process.exit(0);
  if (process.argv.includes('--check')) {
    console.error('lib/board/page.generated.ts is not what its sources make: run node scripts/build-board.mjs');
    process.exit(1);
  }
  writeFileSync(target, made);
}
