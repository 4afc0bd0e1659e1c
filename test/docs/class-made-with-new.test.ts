import { describe, expect, it } from '@jest/globals';
import { LockTimeoutError, LockUsageError } from '../../lib/index.js';
import { TestLocks } from '../../lib/testing/index.js';
import { testModule } from './class-made-with-new.js';
import { ShipmentService } from './fence-and-signal.js';

describe('An object made with new', () => {
  it('refuses its locked methods, because it has no lock module', async () => {
    await expect(new ShipmentService(new TestLocks().locks).ship('1')).rejects.toThrow(LockUsageError);
  });

  it('locks when a factory of a test module made it and the module was initialized', async () => {
    const locks = new TestLocks();
    const module = await testModule(locks);
    const shipments = module.get(ShipmentService);
    expect(await shipments.ship('1')).toMatch(/^order 1 shipped under fence \d+$/);
    await locks.busy('order:1');
    await expect(shipments.ship('1')).rejects.toThrow(LockTimeoutError);
    await module.close();
  });
});
