import { Injectable } from '@nestjs/common';
import { LockModule, type LockModuleOptions } from 'nestjs-holdfast';
import { Vault, VaultModule } from './vault.js';

@Injectable()
export class LockSettings {
  constructor(private readonly vault: Vault) {}

  async create(): Promise<LockModuleOptions> {
    return { redis: await this.vault.read('REDIS_URL') };
  }
}

export const byClass = LockModule.forRootAsync({ imports: [VaultModule], useClass: LockSettings });
