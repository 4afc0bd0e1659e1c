/** The fences of a lease, found by the key as the caller wrote it: locks are called by the escaped one. */
import { escapeKey } from '../key/key-template.js';

export class FencesByKey extends Map<string, number> {
  override get(key: string): number | undefined {
    return super.get(escapeKey(key));
  }

  override has(key: string): boolean {
    return super.has(escapeKey(key));
  }
}
