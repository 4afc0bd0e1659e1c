/**
 * A filter for jest: which suites belong to which command. HOLDFAST_SUITES names it.
 *
 * - `check`: those of `npm run check`, which start no server, load no other framework than Nest over HTTP, and are short.
 * - `test`: those of `npm test`. The ones on servers wait for facts, so they may run beside each other on a busy machine.
 * - `servers`: those of `npm run test:servers`. In them servers fail, freeze, move and vote while leases run in real time, so they run one
 *   after another.
 *
 * Whether a suite starts a server is read from its imports, also the relative ones of the files that it imports.
 */
const { existsSync, readFileSync } = require('node:fs');
const { dirname, relative, resolve, sep } = require('node:path');

const root = resolve(__dirname, '..');
const SERVERS = ['test/support/server-process.ts', 'test/support/redis-binary.ts'].map((path) => resolve(root, path));
const LONG = /^test\/(model|simulation|explorer|faults|sample)\/|^test\/nest\/(matrix|transports|unread-routes)\.test/;
const IN_REAL_TIME = /^test\/(stores|model)\/|^test\/contract\/red(is-store-|lock-)|^test\/lua\/costs|^test\/nest\/costs-of-a-call/;

function startsServers(file, seen = new Set()) {
  if (SERVERS.includes(file)) return true;
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(/from '(\.{1,2}\/[^']+)\.js'|import\('(\.{1,2}\/[^']+)\.js'\)/g);
  for (const [, direct, dynamic] of imports) {
    if (startsServers(resolve(dirname(file), `${direct ?? dynamic}.ts`), seen)) return true;
  }
  return false;
}

function commandOf(path) {
  const name = relative(root, path).split(sep).join('/');
  if (!startsServers(path)) return LONG.test(name) ? 'test' : 'check';
  return IN_REAL_TIME.test(name) ? 'servers' : 'test';
}

module.exports = async (paths) => {
  const wanted = process.env.HOLDFAST_SUITES === 'test' ? ['check', 'test'] : [process.env.HOLDFAST_SUITES];
  return { filtered: paths.filter((path) => wanted.includes(commandOf(path))) };
};
module.exports.startsServers = (file) => startsServers(file);
