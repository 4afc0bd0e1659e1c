// The lock module in one file, with the package of Redis clients that is installed; Nest stays outside.
const format = process.argv[2];
require('esbuild').buildSync({
  stdin: { contents: format === 'cjs' ? "module.exports = require('nestjs-holdfast');" : "export { LockModule } from 'nestjs-holdfast';", resolveDir: __dirname },
  outfile: `bundle/locks.${format}`,
  bundle: true,
  format,
  platform: 'node',
  logLevel: 'error',
  external: ['@nestjs/*', 'rxjs', 'reflect-metadata', '@node-rs/xxhash', '@opentelemetry/api'],
});
