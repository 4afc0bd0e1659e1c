/** Servers that lose their memory while leases are held (crew/scenarios-recovery.ts), each once and short. */
import { recoveryScenarios } from './crew/scenarios-recovery.js';
import { shortRuns } from './crew/short-runs.js';

shortRuns('Processes that share locks on servers that forget', recoveryScenarios.filter(({ long }) => long !== true));
