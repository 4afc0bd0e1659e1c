/**
 * Sends the page of the board, with a content security policy that lets it load nothing but its own files.
 */
import { PAGE_FILES } from './page.generated.js';

/** A response, with the methods that Express and Fastify share. */
export interface PageResponse {
  status(code: number): unknown;
  header(name: string, value: string): unknown;
  send(body: unknown): unknown;
}

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json; charset=utf-8',
};

const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
};

/** Sends the page that was requested by `url`. The links to its files are relative to that, so they fit every global prefix. */
export function sendPage(response: PageResponse, url: string, forceRelease: boolean): void {
  const [path = ''] = url.split('?');
  const last = path.slice(path.lastIndexOf('/') + 1);
  const base = last === '' ? '' : `${last}/`;
  const page = (PAGE_FILES['board.html'] ?? '').replaceAll('{{base}}', escapeHtml(base)).replaceAll('{{forceRelease}}', String(forceRelease));
  send(response, 200, 'html', page);
}

/** Sends a file of the page, or 404 when there is no such file. */
export function sendFile(response: PageResponse, name: string): void {
  const text = name !== 'board.html' && Object.hasOwn(PAGE_FILES, name) ? PAGE_FILES[name] : undefined;
  if (text === undefined) return sendAnswer(response, 404, { message: `The board has no file ${name}.` });
  send(response, 200, name.slice(name.lastIndexOf('.') + 1), text);
}

export function sendAnswer(response: PageResponse, status: number, answer: object): void {
  send(response, status, 'json', JSON.stringify(answer));
}

function send(response: PageResponse, status: number, ending: string, body: string): void {
  response.status(status);
  for (const [name, value] of Object.entries(HEADERS)) response.header(name, value);
  response.header('Content-Type', TYPES[ending] ?? 'text/plain; charset=utf-8');
  response.send(body);
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
