/** Faults of a Cluster (crew/scenarios-cluster.ts), each once and short. */
import { clusterScenarios } from './crew/scenarios-cluster.js';
import { shortRuns } from './crew/short-runs.js';

shortRuns('Processes that share locks on a Cluster', clusterScenarios.filter(({ long }) => long !== true));
