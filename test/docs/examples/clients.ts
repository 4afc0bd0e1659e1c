/** The example of docs/clients.md. */
import { Module } from '@nestjs/common';
import { LockModule } from 'nestjs-holdfast';
import { createClient } from 'redis';

@Module({ imports: [LockModule.forRoot({ redis: createClient({ url: 'redis://localhost:6379' }) })] })
export class AppModule {}
