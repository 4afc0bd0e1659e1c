import { describe, expect, it } from '@jest/globals';
import type { MachineSleep } from '../../../lib/core/lease/machine-sleep.js';
import type { PermitLane } from '../../../lib/core/queue/permit-lane.js';
import { LanePause } from '../../../lib/core/queue/lane-pause.js';
import { FakeClock } from '../../support/fake-clock.js';

describe('Permits that pause', () => {
  it('go on in their order, and when one begins a new pause those behind it wait for its end', async () => {
    const clock = new FakeClock();
    const served: PermitLane[] = [];
    const [one, two, three] = [1, 2, 3].map(() => ({ lease: { isHeld: true } }) as PermitLane);
    const pause = new LanePause(clock, { look: () => undefined } as unknown as MachineSleep, (lane) => {
      served.push(lane);
      if (lane === one) pause.untilNextTurn();
    });
    pause.untilNextTurn();
    for (const lane of [one!, two!, three!]) pause.add(lane);
    pause.goOn();
    expect(served).toEqual([]);
    clock.nextTurn(() => expect(served).toEqual([one]));
    await clock.settle();
    expect(served).toEqual([one, two, three]);
  });
});
