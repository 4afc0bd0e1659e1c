/** Requests to the shop, timed. */

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** How long the answer took, in ms. */
  readonly waitedMs: number;
}

export async function request(method: 'GET' | 'POST' | 'PUT', url: string, body?: object): Promise<Answer> {
  const sentAt = performance.now();
  const response = await fetch(url, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : undefined, waitedMs: performance.now() - sentAt };
}

/** A request that has to succeed; gives the body. */
export async function send<T>(method: 'GET' | 'POST' | 'PUT', url: string, body?: object): Promise<T> {
  const answer = await request(method, url, body);
  if (answer.status >= 400) {
    throw new Error(`${method} ${url} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
  return answer.body as T;
}

/** The instance that request number `n` goes to: in turn, as a load balancer would. */
export function instanceFor(urls: readonly string[], n: number): string {
  return urls[n % urls.length] ?? '';
}
