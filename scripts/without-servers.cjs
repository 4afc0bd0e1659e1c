// A filter for jest: the tests that start no server, so that `npm run check` takes seconds and needs no Redis. A test
// that reaches a file below through its relative imports is left to `npm test`, and so is everything random and long.
const { existsSync, readFileSync } = require('node:fs');
const { dirname, relative, resolve } = require('node:path');

const root = resolve(__dirname, '..');
const SERVERS = ['test/support/server-process.ts', 'test/support/redis-binary.ts'].map((path) => resolve(root, path));
const LONG = /^test\/(model|simulation|faults|sample)\//;

function reachesServer(file, seen = new Set()) {
  if (SERVERS.includes(file)) return true;
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(/from '(\.{1,2}\/[^']+)\.js'|import\('(\.{1,2}\/[^']+)\.js'\)/g);
  for (const [, direct, dynamic] of imports) {
    if (reachesServer(resolve(dirname(file), `${direct ?? dynamic}.ts`), seen)) return true;
  }
  return false;
}

module.exports = async (paths) => ({
  filtered: paths.filter((path) => !LONG.test(relative(root, path)) && !reachesServer(path)),
});
