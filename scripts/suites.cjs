/**
 * A filter for jest: which suites belong to which command. HOLDFAST_SUITES names it.
 *
 * - `check`: those of `npm run check`, which start no server, load no framework beside Nest itself, and are short.
 * - `test`: those of `npm test`. The ones on servers wait for facts, so they may run beside each other on a busy machine.
 * - `servers`: those of `npm run test:servers`. In them servers fail, freeze, move and vote while leases run in real time, so they run one
 *   after another; and those that ask servers or start the command line so often that they would be a good part of `npm test`.
 *
 * What a suite starts and loads is read from its imports, and from those of the files of test/ that it imports.
 */
const { existsSync, readFileSync } = require('node:fs');
const { dirname, join, relative, resolve, sep } = require('node:path');

const root = resolve(__dirname, '..');
const SERVERS = ['test/support/server-process.ts', 'test/support/redis-binary.ts'].map((path) => resolve(root, path));
const LONG = /^test\/(model|simulation|explorer|faults|sample)\/|^test\/testing\/passing-time|^test\/contract\/.*-simulated/;
const FRAMEWORK = /from '(@nestjs\/(?!common'|core'|testing')[^']+|@opentelemetry\/[^']+|supertest|bullmq|ws)'/;
const IN_REAL_TIME = /^test\/(stores|model|contract)\/|^test\/lua\/(costs|listening)|^test\/nest\/(costs-of-a-call|bullmq-attempts|kept-alive|wrong-topology)/;
const MANY_COMMANDS = /^test\/(cli\/holdfast|simulation\/redis-and-interpreter)/;

/** Whether this file or one that it imports is such a one. */
function reaches(file, isSuchAOne, seen = new Set()) {
  if (seen.has(file) || !file.startsWith(join(root, 'test', sep)) || !existsSync(file)) return false;
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  if (isSuchAOne(file, text)) return true;
  const imports = text.matchAll(/from '(\.{1,2}\/[^']+)\.js'|import\('(\.{1,2}\/[^']+)\.js'\)/g);
  for (const [, direct, dynamic] of imports) {
    if (reaches(resolve(dirname(file), `${direct ?? dynamic}.ts`), isSuchAOne, seen)) return true;
  }
  return false;
}

const startsServers = (path) => reaches(path, (file) => SERVERS.includes(file));
const loadsFramework = (path) => reaches(path, (_, text) => FRAMEWORK.test(text));

function commandOf(path) {
  const name = relative(root, path).split(sep).join('/');
  if (startsServers(path)) return IN_REAL_TIME.test(name) || MANY_COMMANDS.test(name) ? 'servers' : 'test';
  return LONG.test(name) || loadsFramework(path) ? 'test' : 'check';
}

module.exports = async (paths) => {
  const wanted = process.env.HOLDFAST_SUITES === 'test' ? ['check', 'test'] : [process.env.HOLDFAST_SUITES];
  return { filtered: paths.filter((path) => wanted.includes(commandOf(path))) };
};
module.exports.startsServers = startsServers;
