/** Faults of five masters (crew/scenarios-redlock.ts), each once and short. */
import { redlockScenarios } from './crew/scenarios-redlock.js';
import { shortRuns } from './crew/short-runs.js';

shortRuns('Processes that share locks on five masters', redlockScenarios.filter(({ long }) => long !== true));
