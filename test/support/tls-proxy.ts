/** What speaks TLS in front of a server of a test, with a certificate of its own, as a managed Redis does. */
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { createServer, type Server } from 'node:tls';
import { freePort } from './free-port.js';
import type { OwnCertificate } from './own-certificate.js';

export class TlsProxy {
  private readonly sockets = new Set<Socket>();

  constructor(readonly port: number, private readonly listener: Server, targetPort: number) {
    listener.on('secureConnection', (client) => this.join(client, connect(targetPort, '127.0.0.1')));
    listener.on('tlsClientError', () => undefined);
  }

  get url(): string {
    return `rediss://127.0.0.1:${this.port}`;
  }

  stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    return new Promise((resolve) => this.listener.close(() => resolve()));
  }

  private join(client: Socket, server: Socket): void {
    const end = (): void => [client, server].forEach((socket) => void (this.sockets.delete(socket), socket.destroy()));
    for (const socket of [client, server]) {
      this.sockets.add(socket);
      socket.setNoDelay(true).on('error', end).on('close', end);
    }
    client.pipe(server).pipe(client);
  }
}

export async function startTlsProxy(targetPort: number, certificate: OwnCertificate): Promise<TlsProxy> {
  const listener = createServer(certificate);
  const port = await freePort();
  await new Promise<void>((resolve, reject) => listener.once('error', reject).listen(port, '127.0.0.1', resolve));
  return new TlsProxy(port, listener, targetPort);
}
