/**
 * A network between a contender and its server: a relay, in a thread of its own, that delays each packet. It has one queue for all
 * connections, so that it never swaps what two connections sent.
 */
import net from 'node:net';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

interface Link {
  readonly port: number;
  /** How long a packet takes, each way. */
  readonly delayMs: number;
}

export interface Relay {
  readonly port: number;
  stop(): Promise<void>;
}

export async function startRelay(link: Link): Promise<Relay> {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: link });
  const port = await new Promise<number>((resolve, reject) => worker.once('message', resolve).once('error', reject));
  return { port, stop: async () => void (await worker.terminate()) };
}

/** What is on its way: the oldest first. Timers are too coarse for a fraction of a millisecond, so the thread looks at the clock all the time. */
function relay({ port, delayMs }: Link): void {
  const queue: { readonly at: number; readonly deliver: () => void }[] = [];
  const look = (): void => {
    while (queue.length > 0 && queue[0]!.at <= performance.now()) queue.shift()!.deliver();
    if (queue.length > 0) setImmediate(look);
  };
  const send = (deliver: () => void): void => {
    queue.push({ at: performance.now() + delayMs, deliver });
    if (queue.length === 1) setImmediate(look);
  };
  const join = (from: net.Socket, to: net.Socket): void => {
    from.setNoDelay(true);
    from.on('data', (data) => send(() => void (to.destroyed || to.write(data))));
    from.on('close', () => send(() => to.destroy()));
    from.on('error', () => to.destroy());
  };
  const server = net.createServer((client) => {
    const upstream = net.connect(port, '127.0.0.1');
    join(client, upstream);
    join(upstream, client);
  });
  server.listen(0, '127.0.0.1', () => parentPort!.postMessage((server.address() as net.AddressInfo).port));
}

if (!isMainThread) relay(workerData as Link);
