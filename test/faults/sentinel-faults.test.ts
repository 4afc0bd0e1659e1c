/** Faults under a Sentinel (crew/scenarios-sentinel.ts), each once and short. */
import { sentinelScenarios } from './crew/scenarios-sentinel.js';
import { shortRuns } from './crew/short-runs.js';

shortRuns('Processes that share locks under a Sentinel', sentinelScenarios.filter(({ long }) => long !== true));
