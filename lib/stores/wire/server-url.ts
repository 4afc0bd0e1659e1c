/** Reads the URL of a server as ioredis does, so that it means the same with every package of clients. */
import type { ServerOptions } from './redis-target.js';

/** The forms that ioredis takes: a URL, `host:port`, a port, or the path of a Unix socket; db, family and others as parameters. */
export function serverOfUrl(text: string): ServerOptions {
  if (/^\d+$/.test(text)) return { port: Number(text) };
  if (text.startsWith('/')) {
    const [path = '', query = ''] = text.split('?');
    return { path, ...parametersOf(new URLSearchParams(query)) };
  }
  const { protocol, hostname, port, username, password, pathname, searchParams } = parsed(text);
  const db = pathname.length > 1 ? Number(pathname.slice(1)) : undefined;
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? undefined : Number(port),
    username: username === '' ? undefined : decodeURIComponent(username),
    password: password === '' ? undefined : decodeURIComponent(password),
    tls: protocol === 'rediss:' ? {} : undefined,
    ...parametersOf(searchParams),
    ...(db === undefined ? {} : { db }),
  };
}

/** The server of options that may have a URL. What it says wins over the options beside it. */
export function serverOf({ url, ...options }: ServerOptions): ServerOptions {
  return url === undefined ? options : { ...options, ...said(serverOfUrl(url)) };
}

/** Without what a URL leaves open, which would hide the same among the options beside it. */
export function said(server: ServerOptions): ServerOptions {
  return Object.fromEntries(Object.entries(server).filter(([, value]) => value !== undefined));
}

/**
 * What is wrong with the text of a URL, as the end of a sentence; undefined when both packages of clients read the same server and
 * database in it. The sentence does not repeat the text, because a password may stand in it.
 */
export function urlProblem(text: string): string | undefined {
  if (/^["'`]|["'`]$/.test(text.trim())) return 'has quotes around it, which are part of the value, as the env file of a container keeps them; leave them out';
  if (/^([\w+.-]+:)?\/\//.test(text) && !/^rediss?:\/\//.test(text)) return 'starts with neither redis:// nor rediss://; a Unix socket is given by its path alone, such as /run/redis.sock';
  const url = readable(text);
  if (url === undefined) return 'cannot be read as a URL; in a user name or a password / # ? @ : and % are written as %2F %23 %3F %40 %3A and %25';
  if (url.protocol !== 'file:' && url.hostname === '') return 'names no host, which would mean the Redis on this machine';
  const path = url.protocol === 'file:' ? '' : url.pathname.slice(1);
  const db = path === '' ? (url.searchParams.get('db') ?? '0') : path;
  if (!/^\d+$/.test(db)) return 'names a database that is no whole number from 0';
  return path === '' || /^rediss?:/.test(text) ? undefined : 'names a database but does not start with redis:// or rediss://';
}

/** undefined also for a URL with a #, which ends what is read of it: a password with that character leads to another server. */
function readable(text: string): URL | undefined {
  try {
    serverOfUrl(text);
    return text.includes('#') && !text.startsWith('/') ? undefined : parsed(text);
  } catch {
    return undefined;
  }
}

function parsed(text: string): URL {
  if (text.startsWith('/')) return new URL(`file://${text}`);
  return new URL(/^\w+:\/\//.test(text) ? text : `redis://${text}`);
}

function parametersOf(parameters: URLSearchParams): ServerOptions {
  const number = (name: string): number | undefined => {
    const value = parameters.get(name);
    return value === null || value === '' || !Number.isFinite(Number(value)) ? undefined : Number(value);
  };
  const named = { db: number('db'), family: number('family'), connectTimeout: number('connectTimeout') };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined));
}
