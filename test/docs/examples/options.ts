import { Injectable, Module } from '@nestjs/common';
import { LockModule, type LockModuleOptions } from 'nestjs-holdfast';

@Injectable()
export class Vault {
  async read(_name: string): Promise<string> {
    return 'redis://127.0.0.1:6379';
  }
}

@Module({ providers: [Vault], exports: [Vault] })
export class VaultModule {}

@Injectable()
export class LockSettings {
  constructor(private readonly vault: Vault) {}

  async create(): Promise<LockModuleOptions> {
    return { redis: await this.vault.read('REDIS_URL') };
  }
}

export const byClass = LockModule.forRootAsync({ imports: [VaultModule], useClass: LockSettings });
