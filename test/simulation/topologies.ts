/** Makes the servers of each topology. */
import { ClusterSetting } from './cluster-setting.js';
import type { Plan } from './plan.js';
import type { Random } from './random.js';
import { Independent, SentinelSetting, type Setting } from './setting.js';
import type { VirtualTime } from './virtual-time.js';

export function settingOf(plan: Plan, time: VirtualTime, random: Random): Setting {
  switch (plan.topology) {
    case 'sentinel':
      return new SentinelSetting(time, random);
    case 'cluster':
      return new ClusterSetting(time, random);
    default:
      return new Independent(plan, time, random);
  }
}
