/** What a seed stands for: who takes part, what they want, and what is done to them. */
import { Random } from './random.js';

export type Topology = 'single' | 'redlock' | 'sentinel' | 'cluster';

export type ServerFault =
  | 'freeze'
  | 'restart'
  | 'empty restart'
  | 'flush'
  | 'older snapshot'
  | 'failover'
  | 'loading'
  | 'full'
  | 'readonly'
  | 'script flush'
  | 'clock'
  | 'clock jump';

/** What happens to a master that has a replica, between the two, and between two such masters of a Cluster. */
export type FailoverFault = 'master killed' | 'master frozen' | 'partition' | 'replication lags' | 'replication cut' | 'slot moves';

/** The kinds of faults that a run may have. */
export type Fault =
  | ServerFault
  | FailoverFault
  | 'pause'
  | 'sleep'
  | 'crash'
  | 'cut'
  | 'silence'
  | 'drop'
  | 'duplicate'
  | 'deaf'
  | 'slow'
  | 'wall clock'
  | 'shutdown'
  | 'force release'
  | 'other format';

export interface Plan {
  readonly seed: number;
  readonly topology: Topology;
  readonly profile: string;
  readonly faults: readonly Fault[];
  readonly nodes: number;
  readonly processes: number;
  readonly callers: number;
  readonly keys: readonly string[];
  readonly leasesMs: readonly number[];
  readonly waitsMs: readonly number[];
  readonly holdsMs: readonly [number, number];
  /** How long callers rest between two calls. */
  readonly restsMs: readonly [number, number];
  readonly handOn: number;
  readonly commandTimeoutMs: number;
  readonly maxLeaseMs: number;
  readonly recoveryMs: number;
  readonly readers: number;
  /** Owners, minHold, maxHold, fixed leases, several keys, nesting: how often a call has something of it. */
  readonly fancy: number;
  readonly storeCalls: number;
  /** How many permits the lock {@link PERMIT_KEY} has; undefined when nobody asks for it. */
  readonly permits: number | undefined;
  /** How many replicas must have a grant. */
  readonly minReplicas: number;
  /** Nothing that is done may let two hold a lock: no hold is excused because the servers forgot it. */
  readonly certain: boolean;
}

interface Profile {
  readonly weight: number;
  /** The recovery after a loss of memory is as long as the longest lease. */
  readonly recoversForALease?: true;
  /** All grants count only when the replica has them. */
  readonly acknowledged?: true;
  /** Every process reaches the new master well within the recovery. */
  readonly prompt?: true;
  readonly faults: readonly Fault[];
}

const SINGLE: Readonly<Record<string, Profile>> = {
  calm: { weight: 3, faults: [] },
  processes: { weight: 3, faults: ['pause', 'sleep', 'crash', 'shutdown'] },
  network: { weight: 4, faults: ['cut', 'silence', 'drop', 'duplicate', 'deaf', 'slow'] },
  deaf: { weight: 1, faults: ['deaf'] },
  server: { weight: 3, faults: ['freeze', 'restart', 'loading', 'readonly', 'script flush', 'full'] },
  clocks: { weight: 2, faults: ['clock', 'wall clock', 'pause'] },
  jumps: { weight: 1, faults: ['clock jump', 'pause'] },
  amnesia: { weight: 3, faults: ['empty restart', 'failover', 'flush', 'pause', 'cut'] },
  'amnesia and silence': { weight: 2, recoversForALease: true, faults: ['empty restart', 'failover', 'flush', 'pause', 'cut', 'silence', 'deaf', 'slow', 'duplicate'] },
  'older snapshots': { weight: 2, faults: ['older snapshot', 'older snapshot', 'crash', 'shutdown', 'script flush'] },
  'amnesia and jumps': { weight: 1, faults: ['empty restart', 'clock jump'] },
  operator: { weight: 1, faults: ['force release', 'pause', 'crash'] },
  'rolling deploy': { weight: 1, faults: ['other format', 'other format', 'empty restart', 'flush', 'restart', 'cut'] },
  storm: { weight: 4, faults: ['pause', 'crash', 'cut', 'silence', 'drop', 'duplicate', 'deaf', 'slow', 'freeze', 'restart', 'script flush', 'clock', 'shutdown'] },
};

const REDLOCK: Readonly<Record<string, Profile>> = {
  calm: { weight: 2, faults: [] },
  processes: { weight: 2, faults: ['pause', 'pause', 'crash', 'shutdown'] },
  network: { weight: 3, faults: ['cut', 'silence', 'drop', 'duplicate', 'slow'] },
  nodes: { weight: 3, faults: ['freeze', 'restart', 'empty restart', 'full', 'script flush'] },
  clocks: { weight: 2, faults: ['clock', 'wall clock', 'pause'] },
  operator: { weight: 2, faults: ['force release', 'force release', 'force release', 'deaf', 'crash'] },
  'operator and silence': {
    weight: 3, faults: ['force release', 'force release', 'force release', 'deaf', 'deaf', 'silence', 'silence', 'drop', 'duplicate', 'slow', 'pause', 'crash', 'freeze', 'restart'],
  },
  storm: {
    weight: 3,
    faults: ['pause', 'crash', 'cut', 'silence', 'drop', 'duplicate', 'slow', 'freeze', 'restart', 'empty restart', 'clock', 'shutdown', 'force release'],
  },
};

const SENTINEL: Readonly<Record<string, Profile>> = {
  calm: { weight: 2, faults: [] },
  failovers: { weight: 3, prompt: true, faults: ['master killed', 'master killed', 'replication lags', 'replication cut'] },
  'failovers and silence': {
    weight: 3, recoversForALease: true,
    faults: ['master killed', 'master killed', 'replication lags', 'replication cut', 'pause', 'cut', 'silence', 'deaf', 'slow', 'duplicate', 'crash'],
  },
  acknowledged: {
    weight: 4, acknowledged: true,
    faults: ['master killed', 'master frozen', 'partition', 'partition', 'replication lags', 'replication cut', 'pause', 'sleep', 'cut', 'silence', 'drop', 'deaf', 'crash'],
  },
  partitions: { weight: 3, faults: ['partition', 'partition', 'master frozen', 'replication lags', 'pause', 'sleep', 'cut', 'deaf', 'crash', 'shutdown'] },
  'rolling deploy': { weight: 1, prompt: true, faults: ['other format', 'other format', 'master killed', 'replication lags', 'crash', 'shutdown', 'cut'] },
  storm: {
    weight: 3,
    faults: [
      'master killed', 'master frozen', 'partition', 'replication lags', 'replication cut', 'restart', 'empty restart', 'flush', 'freeze', 'readonly', 'full', 'clock',
      'pause', 'crash', 'cut', 'silence', 'drop', 'duplicate', 'deaf', 'slow', 'shutdown', 'script flush', 'force release',
    ],
  },
};

const CLUSTER: Readonly<Record<string, Profile>> = {
  calm: { weight: 1, faults: [] },
  'slots move': { weight: 3, prompt: true, faults: ['slot moves', 'slot moves', 'pause', 'cut', 'deaf', 'slow', 'crash'] },
  failovers: { weight: 2, prompt: true, faults: ['master killed', 'master killed', 'slot moves', 'replication lags', 'replication cut'] },
  'failovers and silence': {
    weight: 3, recoversForALease: true,
    faults: ['master killed', 'master killed', 'slot moves', 'replication lags', 'replication cut', 'pause', 'cut', 'silence', 'deaf', 'slow', 'duplicate', 'crash'],
  },
  acknowledged: {
    weight: 2, acknowledged: true,
    faults: ['master killed', 'master frozen', 'partition', 'slot moves', 'replication lags', 'replication cut', 'pause', 'cut', 'silence', 'drop', 'deaf', 'crash'],
  },
  partitions: { weight: 2, faults: ['partition', 'partition', 'master frozen', 'slot moves', 'replication lags', 'pause', 'cut', 'deaf', 'crash', 'shutdown'] },
  'rolling deploy': { weight: 1, prompt: true, faults: ['other format', 'other format', 'master killed', 'slot moves', 'crash', 'shutdown', 'cut'] },
  storm: {
    weight: 3,
    faults: [
      'master killed', 'master frozen', 'partition', 'slot moves', 'replication lags', 'replication cut', 'restart', 'empty restart', 'flush', 'freeze', 'full', 'clock',
      'pause', 'crash', 'cut', 'silence', 'drop', 'duplicate', 'deaf', 'slow', 'shutdown', 'script flush', 'force release',
    ],
  },
};

const PROFILES: Readonly<Record<Topology, Readonly<Record<string, Profile>>>> = { single: SINGLE, redlock: REDLOCK, sentinel: SENTINEL, cluster: CLUSTER };

/** The lock of which calls want permits. */
export const PERMIT_KEY = 'smtp';

/** Names of different length and slot group, one with what is encoded in Redis. */
const KEYS = ['order:1', 'wallet:ä{7}', 'nightly'];

/** @param only the name of a profile, for those who look for something */
export function planOf(seed: number, topology: Topology, random: Random, storeCalls: number, only?: string): Plan {
  const profiles = PROFILES[topology];
  const drawn = random.pick(Object.entries(profiles).flatMap(([name, { weight }]) => new Array<string>(weight).fill(name)));
  const profile = only !== undefined && only in profiles ? only : drawn;
  const longestMs = topology === 'redlock' ? random.pick([3_000, 6_000]) : 30_000;
  const { faults, recoversForALease = false, acknowledged = false, prompt = false } = profiles[profile] as Profile;
  const leases = random.pick([[3_000], [1_000, 10_000], [400], [2_000, 2_000, 30_000], [600, 5_000]]);
  const leasesMs = leases.map((leaseMs) => Math.min(leaseMs, longestMs));
  const maxLeaseMs = recoversForALease ? Math.max(...leasesMs) : longestMs;
  return {
    seed,
    topology,
    profile,
    faults,
    nodes: topology === 'redlock' ? random.pick([3, 3, 3, 5]) : 1,
    processes: random.whole(2, topology === 'redlock' ? 3 : 4),
    callers: random.whole(2, 4),
    keys: KEYS.slice(0, random.pick([1, 1, 2, 3])),
    leasesMs,
    waitsMs: random.pick([[10_000], [0, 2_000, 20_000], [500, 5_000], [30_000]]),
    holdsMs: random.pick([[0, 20], [0, 300], [5, 60], [100, 2_500]] as const),
    restsMs: random.pick([[0, 5], [0, 100], [50, 800]] as const),
    handOn: random.pick([1, 2, 16, 16]),
    commandTimeoutMs: random.pick([300, 1_000, 2_000]),
    maxLeaseMs,
    recoveryMs: recoversForALease ? maxLeaseMs : random.pick(topology === 'single' || topology === 'redlock' ? [0, 1_000, 1_000] : [1_000, 1_000, 3_000]),
    readers: random.pick([0, 0.3, 0.7]),
    fancy: random.pick([0, 0.2, 0.4]),
    storeCalls,
    // Drawn apart, so that the other choices of a seed are those that they were before there were permits.
    permits: topology === 'redlock' ? undefined : new Random(~seed).pick([undefined, undefined, 2, 3]),
    minReplicas: acknowledged ? 1 : 0,
    certain: recoversForALease || acknowledged || prompt,
  };
}
