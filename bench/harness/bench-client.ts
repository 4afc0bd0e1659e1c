/** By which package of clients Holdfast and the floor reach Redis: HOLDFAST_BENCH_CLIENT is `ioredis` (the default) or `redis`. */
import type { ClientPackage } from '../../lib/stores/wire/redis-target.js';

export const BENCH_CLIENT: ClientPackage = process.env['HOLDFAST_BENCH_CLIENT'] === 'redis' ? 'redis' : 'ioredis';
