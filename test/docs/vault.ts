/** What the example of options that a class gives reads its secrets from. */
import { Injectable, Module } from '@nestjs/common';

@Injectable()
export class Vault {
  async read(name: string): Promise<string> {
    return process.env[name] ?? '';
  }
}

@Module({ providers: [Vault], exports: [Vault] })
export class VaultModule {}
