import { registerAs, ConfigModule, ConfigService } from '@nestjs/config';
import { LockModule } from 'nestjs-holdfast';

const lockConfig = registerAs('lock', () => ({ redis: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', leaseMs: 20_000 }));

export const byConfigService = LockModule.forRootAsync({
  imports: [ConfigModule],
  inject: [ConfigService],
  useFactory: (config: ConfigService) => ({ redis: config.getOrThrow<string>('REDIS_URL') }),
});
export const byNamespace = LockModule.forRootAsync(lockConfig.asProvider());
