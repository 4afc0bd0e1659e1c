/** Faults of one Redis under several processes (crew/scenarios-single.ts), each once and short. */
import { singleScenarios } from './crew/scenarios-single.js';
import { shortRuns } from './crew/short-runs.js';

shortRuns('Processes that share locks on one Redis', singleScenarios.filter(({ long }) => long !== true));
