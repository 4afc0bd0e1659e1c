/**
 * Ports for servers of tests. They are below the range that outgoing connections use, so a server that is down for a while finds its
 * port free when it comes back. The process that was given a port keeps the UDP port of the same number, which nothing else uses, until it
 * ends: so no other process is given it, neither a worker of the same run of tests nor one of another run.
 */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const LOWEST = 10_000;
const PORTS = 10_000;
/** Redis Cluster's nodes talk to each other on their port + this, which is above all that are given. */
const TO_BUS_PORT = PORTS;

/** A free port whose cluster bus port is free too; each is given once while this process lives. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * PORTS);
    if ((await isKept(port)) && (await isFree(port)) && (await isFree(port + TO_BUS_PORT))) return port;
  }
}

function isKept(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const keeper = createSocket('udp4').unref();
    keeper.once('error', () => resolve(false));
    keeper.bind(port, '127.0.0.1', () => resolve(true));
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
