import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import type { LockedOptions, LockModuleExtras, LockModuleOptions } from '../../lib/index.js';

/** The compiler wants a line here for each option that there is. */
const OPTIONS: Readonly<Record<keyof LockModuleOptions | keyof LockModuleExtras | keyof LockedOptions, true>> = {
  redis: true,
  client: true,
  embedded: true,
  route: true,
  prefix: true,
  name: true,
  isGlobal: true,
  maxLeaseMs: true,
  handOn: true,
  bootTimeoutMs: true,
  recoveryMs: true,
  commandTimeoutMs: true,
  shutdownGraceMs: true,
  describeHolders: true,
  strictServer: true,
  strictOverrides: true,
  mode: true,
  leaseMs: true,
  waitMs: true,
  renew: true,
  maxHoldMs: true,
  minHoldMs: true,
  graceMs: true,
  owner: true,
  permits: true,
  onBusy: true,
  onLost: true,
  awaitRelease: true,
  returns: true,
  signal: true,
  instance: true,
  minReplicas: true,
  label: true,
  profile: true,
  profiles: true,
};

it('The page of options has a row for every option, and for no other', () => {
  const rows = [...readFileSync('docs/options.md', 'utf8').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name!);
  expect(rows.sort()).toEqual(Object.keys(OPTIONS).sort());
});
