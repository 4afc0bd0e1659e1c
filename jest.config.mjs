/**
 * These have npm scripts of their own: they need minutes, a browser, a packed tarball or Docker. The fault runs have one as well,
 * since they judge how late something is, and must not run beside others; `.ci/run` runs them after `npm test`, one after another in
 * a single worker, which jest ends even if something keeps it busy after its last test.
 */
const apart = ['soak/', 'browser/', 'package/', 'containers/', 'faults/(?!judge\\.)'];

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', `<rootDir>/test/(${apart.join('|')})`],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
          keepClassNames: true,
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  moduleNameMapper: {
    '^nestjs-holdfast$': '<rootDir>/lib/index.ts',
    '^nestjs-holdfast/(.*)$': '<rootDir>/lib/$1/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  // One more than two cores have: some of the time is waiting for servers and processes.
  maxWorkers: 3,
  // Modules of finished suites stay in the memory of a worker: after some fifty suites it has grown to gigabytes.
  workerIdleMemoryLimit: '1000MB',
  // A worker with much memory takes a while to end on a busy machine. What keeps it alive longer than this was left open by a test.
  workerGracefulExitTimeout: 30_000,
  // For what hangs: no test is meant to take that long, and how long one takes is not judged.
  testTimeout: 600_000,
  coverageProvider: 'v8',
  collectCoverageFrom: ['lib/**/*.ts', '!lib/**/*.generated.ts'],
};
