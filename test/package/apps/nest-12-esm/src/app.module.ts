import { Module } from '@nestjs/common';
import { ConfigModule, registerAs } from '@nestjs/config';
import { LockModule } from 'nestjs-holdfast';
import { LockTelemetryModule } from 'nestjs-holdfast/telemetry';
import { OrderService } from './order.service.js';

const lockConfig = registerAs('lock', () => {
  const redis = process.env['REDIS_URL'];
  return redis === undefined ? { embedded: true } : { redis };
});

@Module({
  imports: [ConfigModule.forRoot({ load: [lockConfig] }), LockModule.forRootAsync({ ...lockConfig.asProvider(), name: undefined }), LockTelemetryModule.forRoot()],
  providers: [OrderService],
})
export class AppModule {}
