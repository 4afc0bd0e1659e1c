/** Handlers of messages: WebSocket gateways, and a microservice over TCP. */
import { Controller, Inject, UseGuards } from '@nestjs/common';
import { ClientProxyFactory, MessagePattern, Payload, Transport } from '@nestjs/microservices';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { lastValueFrom } from 'rxjs';
import { WebSocket } from 'ws';
import { freePort } from '../../support/free-port.js';
import { hungUp } from './hung-up.js';
import { ClerksOnly, ForClerks, type Call, type Kind, type Work } from './variants.js';

/** A message on a connection of its own, which stays open until the answer came or the caller left. */
function sent(server: Server, event: string, data: string): Call {
  const { port } = server.address() as AddressInfo;
  const socket = new WebSocket(`ws://127.0.0.1:${port}/${event}`);
  const answer = new Promise<unknown>((resolve) => {
    socket.on('open', () => socket.send(JSON.stringify({ event, data })));
    socket.on('message', (text) => resolve(JSON.parse(text.toString())));
    socket.on('error', (error) => resolve({ hungUp: error.message }));
    socket.on('close', () => resolve({ hungUp: 'closed' }));
  });
  void answer.then(() => socket.terminate());
  return { answer, leave: () => hungUp(server, () => socket.terminate()) };
}

export const webSocketGateway: Kind = {
  name: 'a WebSocket gateway',
  // Nest opens its sockets once, so a gateway cannot be request-scoped.
  lifetimes: ['singleton', 'transient'],
  returns: { promise: 'goes on', observable: 'ends' },
  guarded: true,
  placeholder: '<0>',
  method: 'handle',
  handler: ({ name, above, below, work }) => {
    @WebSocketGateway({ path: `/${name}` })
    class Gateway {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @SubscribeMessage(name)
      @ForClerks()
      @UseGuards(ClerksOnly)
      @below
      handle(@MessageBody() id: string): ReturnType<Work['run']> {
        return this.work.run(id);
      }
    }
    return Gateway;
  },
  modules: (_variants, handlers) => ({ providers: handlers }),
  start: async (app) => {
    app.useWebSocketAdapter(new WsAdapter(app));
    await app.listen(0, '127.0.0.1');
    return { call: ({ name }, id) => sent(app.getHttpServer(), name, id) };
  },
};

export const messageHandler: Kind = {
  name: 'a message handler',
  lifetimes: ['singleton', 'request', 'transient'],
  // Nest's TCP server never looks whether the caller is still there.
  returns: { promise: 'goes on', observable: 'goes on' },
  guarded: true,
  placeholder: '<0>',
  method: 'handle',
  handler: ({ name, scope, above, below, work }) => {
    @Controller({ scope })
    class Messages {
      constructor(@Inject(work) private readonly work: Work) {}

      @above
      @MessagePattern(name)
      @ForClerks()
      @UseGuards(ClerksOnly)
      @below
      handle(@Payload() id: string): ReturnType<Work['run']> {
        return this.work.run(id);
      }
    }
    return Messages;
  },
  modules: (_variants, handlers) => ({ controllers: handlers }),
  start: async (app) => {
    const options = { host: '127.0.0.1', port: await freePort() };
    const service = app.connectMicroservice({ transport: Transport.TCP, options });
    await app.init();
    await app.startAllMicroservices();
    const call = (name: string, id: string): Call => {
      const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
      const answer = lastValueFrom(client.send<unknown>(name, id)).catch((error: unknown) => ({ error }));
      void answer.then(() => client.close());
      return { answer, leave: () => hungUp(service.unwrap<Server>(), () => void client.close()) };
    };
    return { call: ({ name }, id) => call(name, id) };
  },
};
