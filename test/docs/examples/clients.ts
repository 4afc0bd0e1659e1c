/** The examples of docs/clients.md. */
import { readFile } from 'node:fs/promises';
import { Module } from '@nestjs/common';
import { LockModule } from 'nestjs-holdfast';
import { createClient } from 'redis';

@Module({ imports: [LockModule.forRoot({ redis: createClient({ url: 'redis://localhost:6379' }) })] })
export class AppModule {}

const credentials = async () => ({ password: (await readFile('/run/secrets/redis', 'utf8')).trim() });
export const locks = LockModule.forRoot({ redis: { url: 'rediss://locks@redis.example:6379', credentials } });
