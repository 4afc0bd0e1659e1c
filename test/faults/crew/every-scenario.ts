/** All fault scenarios, for the long runs. */
import type { Scenario } from './fault-run.js';
import { clockScenarios } from './scenarios-clock.js';
import { clusterScenarios } from './scenarios-cluster.js';
import { recoveryScenarios } from './scenarios-recovery.js';
import { redlockScenarios } from './scenarios-redlock.js';
import { sentinelScenarios } from './scenarios-sentinel.js';
import { singleScenarios } from './scenarios-single.js';

export const everyScenario: readonly Scenario[] = [...singleScenarios, ...recoveryScenarios, ...clockScenarios, ...sentinelScenarios, ...clusterScenarios, ...redlockScenarios];
