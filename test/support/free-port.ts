/**
 * Ports for servers of tests. They are below the range that outgoing connections use, and each jest worker has a share of its own,
 * so a server that is down for a while finds its port free when it comes back.
 */
import { createServer } from 'node:net';

const LOWEST = 10_000;
const WORKERS = 8;
const PORTS_PER_WORKER = 1_250;
const MOST_GIVEN = 0.9 * PORTS_PER_WORKER;
/** Redis Cluster's nodes talk to each other on their port + this, which is above all that are given. */
const TO_BUS_PORT = WORKERS * PORTS_PER_WORKER;

const given = new Set<number>();
const lowestHere = LOWEST + (Number(process.env.JEST_WORKER_ID ?? 1) % WORKERS) * PORTS_PER_WORKER;

/** A free port whose cluster bus port is free too; each is given once in this process, until few are left. */
export async function freePort(): Promise<number> {
  if (given.size > MOST_GIVEN) given.clear();
  for (;;) {
    const port = lowestHere + Math.floor(Math.random() * PORTS_PER_WORKER);
    if (given.has(port) || !(await isFree(port)) || !(await isFree(port + TO_BUS_PORT))) continue;
    given.add(port);
    return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
