/** Reads the URL of a server as ioredis does, so that it means the same with every package of clients. */
import type { ServerOptions } from './redis-target.js';

/** The forms that ioredis takes: a URL, `host:port`, or the path of a Unix socket; db, family and others as parameters. */
export function serverOfUrl(text: string): ServerOptions {
  if (text.startsWith('/')) {
    const [path = '', query = ''] = text.split('?');
    return { path, ...parametersOf(new URLSearchParams(query)) };
  }
  const { protocol, hostname, port, username, password, pathname, searchParams } = new URL(/^\w+:\/\//.test(text) ? text : `redis://${text}`);
  const db = pathname.length > 1 ? Number(pathname.slice(1)) : undefined;
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? undefined : Number(port),
    username: username === '' ? undefined : decodeURIComponent(username),
    password: password === '' ? undefined : decodeURIComponent(password),
    tls: protocol === 'rediss:' ? {} : undefined,
    ...(db === undefined ? {} : { db }),
    ...parametersOf(searchParams),
  };
}

function parametersOf(parameters: URLSearchParams): ServerOptions {
  const number = (name: string): number | undefined => {
    const value = parameters.get(name);
    return value === null || value === '' || !Number.isFinite(Number(value)) ? undefined : Number(value);
  };
  const named = { db: number('db'), family: number('family'), connectTimeout: number('connectTimeout') };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
}
