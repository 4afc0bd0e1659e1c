/** Reads the events of a board as a browser does. Not by fetch, which leaves a fresh connection behind when it is aborted. */
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { BoardView } from '../../lib/board/board.js';

export interface EventReader {
  /** The first view, from now on, that pleases, with how many were seen so far; rejects after fifteen seconds. */
  until(pleases: (view: BoardView, seen: number) => boolean): Promise<[BoardView, number]>;
  /** Resolves when the server ended the stream. */
  readonly ended: Promise<void>;
  close(): void;
}

const WITHIN_MS = 15_000;

export async function readEvents(url: string): Promise<EventReader> {
  const request = get(url);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`${url} answered ${response.statusCode}`);
  let seen = 0;
  const listeners = new Set<(view: BoardView) => void>();
  const ended = read(response, (view) => {
    seen += 1;
    for (const listener of listeners) listener(view);
  });
  ended.catch(() => undefined);
  return {
    ended,
    close: () => request.destroy(),
    until: (pleases) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => settle(() => reject(new Error(`no such view within ${WITHIN_MS} ms`))), WITHIN_MS);
        const listener = (view: BoardView): void => {
          if (pleases(view, seen)) settle(() => resolve([view, seen]));
        };
        const settle = (finish: () => void): void => {
          clearTimeout(timer);
          listeners.delete(listener);
          finish();
        };
        listeners.add(listener);
      }),
  };
}

async function read(body: IncomingMessage, onView: (view: BoardView) => void): Promise<void> {
  let text = '';
  for await (const chunk of body.setEncoding('utf8')) {
    text += String(chunk);
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const [, data] = /^data: (.*)$/m.exec(event) ?? [];
      if (data !== undefined) onView(JSON.parse(data) as BoardView);
    }
  }
}
