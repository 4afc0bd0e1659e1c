/** The stream of events on a response of Node, as Express and Fastify give it to a handler. */
import { once } from 'node:events';
import { createServer, get, request as requestTo, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Subject, type Observable } from 'rxjs';
import { sendEvents, type EventResponse } from '../../lib/board/event-stream.js';
import { eventually } from '../support/eventually.js';

const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/** A server whose every answer is the stream of `events`. `replyOf` makes of Node's response what its framework gives to a handler. */
async function serve(events: Observable<string>, replyOf: (raw: ServerResponse) => EventResponse = (raw) => raw): Promise<{ server: Server; url: string }> {
  const server = createServer((_, raw) => sendEvents(replyOf(raw), events)).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function opened(url: string): Promise<IncomingMessage> {
  const [response] = (await once(get(url), 'response')) as [IncomingMessage];
  return response.setEncoding('utf8');
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}

describe('the stream of events', () => {
  it('keeps only the last event for a client that does not read', async () => {
    const events = new Subject<string>();
    const { url } = await serve(events);
    const response = await opened(url);
    const filling = 'x'.repeat(1_000_000);
    for (let n = 1; n <= 100; n += 1) events.next(`${n} ${filling}`);
    let text = '';
    response.on('data', (more) => (text += String(more)));
    // The last event is written when the client has read the first one; the stream must not end before that.
    await eventually(() => expect(text.includes('data: 100 ')).toBe(true));
    events.complete();
    const numbers = [...text.matchAll(/^data: (\d+) /gm)].map(([, n]) => Number(n));
    expect(numbers[0]).toBe(1);
    expect(numbers.at(-1)).toBe(100);
    expect(numbers.length).toBeLessThan(20);
  });

  it('gives the events up when the client goes', async () => {
    const events = new Subject<string>();
    const { url } = await serve(events);
    const response = await opened(url);
    await eventually(() => expect(events.observed).toBe(true));
    response.destroy();
    await eventually(() => expect(events.observed).toBe(false));
  });

  it('lasts for longer than a server lets its connections be idle', async () => {
    const events = new Subject<string>();
    const { server, url } = await serve(events);
    server.setTimeout(100);
    const text = textOf(await opened(url));
    await new Promise((resolve) => setTimeout(resolve, 500));
    events.next('late');
    events.complete();
    expect(await text).toBe('\nid: 1\nretry: 500\ndata: late\n\n');
  });

  it('ends at once for a client that asks for the headers only', async () => {
    const events = new Subject<string>();
    const { url } = await serve(events);
    const [response] = (await once(requestTo(url, { method: 'HEAD' }).end(), 'response')) as [IncomingMessage];
    expect(await textOf(response)).toBe('');
    expect(response.headers['content-type']).toBe('text/event-stream');
    expect(events.observed).toBe(false);
  });

  it('takes the response from Fastify before the handler returns, with the headers that hooks set for it', async () => {
    const events = new Subject<string>();
    const hijacked: boolean[] = [];
    const headers: Record<string, string> = { 'content-type': 'text/plain', vary: 'Origin' };
    const { url } = await serve(events, (raw) => ({ raw, getHeaders: () => headers, hijack: () => hijacked.push(raw.headersSent) }));
    const response = await opened(url);
    expect(hijacked).toEqual([false]);
    expect(response.headers).toMatchObject({ 'content-type': 'text/event-stream', vary: 'Origin' });
    response.destroy();
  });

  it('leaves a response alone that was answered after the handler had returned', async () => {
    const events = new Subject<string>();
    const { url } = await serve(events, (raw) => {
      queueMicrotask(() => raw.writeHead(500).end('an interceptor failed'));
      return raw;
    });
    const response = await opened(url);
    expect([response.statusCode, await textOf(response)]).toEqual([500, 'an interceptor failed']);
    expect(events.observed).toBe(false);
  });
});
