/**
 * Every contender by a name that can be handed to another process.
 */
import { asyncMutex } from './local-mutex.js';
import { bare } from './bare.js';
import type { Contender } from './contender.js';
import { floor, floorOnCluster } from './floor.js';
import { holdfastFenced, holdfastUnfenced, nodeRedissonGuard, redisSemaphoreGuard, redlock5Guard, redlockUniversalGuard } from './guards.js';
import { holdfast, holdfastOnCluster, holdfastPermits } from './holdfast.js';
import { murlock, nodeRedisson, redisKit, redisSemaphore, redisSemaphorePermits, redlock4, redlock5, redlockUniversal } from './peers.js';
import { holdfastOnRedlock, redisSemaphoreOnNodes, redlock4OnNodes, redlock5OnNodes, redlockUniversalOnNodes } from './redlocks.js';
import { pollingReadWrite } from './polling-read-write.js';
import { blockingPopLock, publishLock } from './push-lock.js';

const contenders: Readonly<Record<string, (setting?: number) => Contender>> = {
  floor: () => floor,
  floorOnCluster: () => floorOnCluster,
  bare: () => bare,
  /** With a number: its `handOn`. */
  holdfast: (handOn) => (handOn === undefined ? holdfast() : holdfast(`Holdfast, handOn ${handOn}`, { handOn })),
  /** Passes its results on as soon as the release was sent. */
  holdfastUnawaited: () => holdfast('Holdfast, awaitRelease: false', { awaitRelease: false }),
  holdfastOnCluster,
  /** With the number of permits. */
  holdfastPermits: (permits) => holdfastPermits(permits ?? 1),
  redisSemaphorePermits: (permits) => redisSemaphorePermits(permits ?? 1),
  asyncMutex: () => asyncMutex,
  publishLock: () => publishLock,
  blockingPopLock: () => blockingPopLock,
  /** With a number: the pause between two tries, in ms. */
  pollingReadWrite: (waitMs) => pollingReadWrite(waitMs ?? 5),
  redlock4,
  redlock5,
  redisSemaphore,
  redlockUniversal,
  murlock,
  nodeRedisson,
  redisKit,
  holdfastOnRedlock: () => holdfastOnRedlock(),
  holdfastOnRedlockUnawaited: () => holdfastOnRedlock('Holdfast on a Redlock, awaitRelease: false', { awaitRelease: false }),
  redlock4OnNodes: () => redlock4OnNodes,
  redlock5OnNodes: () => redlock5OnNodes,
  redisSemaphoreOnNodes: () => redisSemaphoreOnNodes,
  redlockUniversalOnNodes: () => redlockUniversalOnNodes,
  holdfastFenced: () => holdfastFenced,
  holdfastUnfenced: () => holdfastUnfenced,
  redlock5Guard: () => redlock5Guard,
  redisSemaphoreGuard: () => redisSemaphoreGuard,
  redlockUniversalGuard: () => redlockUniversalGuard,
  nodeRedissonGuard: () => nodeRedissonGuard,
};

/** `'redlock5'`, or with a setting `'redlock5@5'`. */
export function contenderNamed(entry: string): Contender {
  const [name = '', setting] = entry.split('@');
  const make = contenders[name];
  if (make === undefined) throw new Error(`there is no contender ${name}`);
  return make(setting === undefined ? undefined : Number(setting));
}

export const peerNames = ['redlock4', 'redlock5', 'redisSemaphore', 'redlockUniversal', 'murlock', 'nodeRedisson', 'redisKit'] as const;
