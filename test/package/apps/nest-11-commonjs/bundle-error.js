// A file that uses one error of the package only, bundled as for a shared library; what is not used falls away.
require('esbuild').buildSync({
  stdin: { contents: "export { LockTimeoutError } from 'nestjs-holdfast';", resolveDir: __dirname },
  outfile: 'bundle/error.mjs',
  bundle: true,
  format: 'esm',
  platform: 'node',
  packages: 'bundle',
  external: ['@nestjs/*', 'ioredis', 'rxjs', 'reflect-metadata'],
});
