/** The fragments of docs/several-services.md. */
import type { DynamicModule } from '@nestjs/common';
import { LockModule } from 'nestjs-holdfast';

export const ownAndShared = (): DynamicModule[] => [
  LockModule.forRoot({ redis: process.env.REDIS_URL, prefix: 'shop' }),
  LockModule.forRoot({ redis: process.env.REDIS_URL, prefix: 'shared', name: 'shared' }),
];

export const routed = (): DynamicModule[] => [
  LockModule.forRoot({ route: (key) => (key.startsWith('eu:') ? 'eu' : 'us') }),
  LockModule.forRoot({ name: 'eu', redis: process.env.EU_REDIS_URL }),
  LockModule.forRoot({ name: 'us', redis: process.env.US_REDIS_URL }),
];
