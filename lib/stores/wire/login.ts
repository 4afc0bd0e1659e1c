/** Logins that change, such as tokens and rotated secrets: the user's function is asked for the login of each connection before it is made. */
import type { Clock } from '../../core/port/clock.js';
import { messageOf } from '../../core/port/errors.js';

export interface Login {
  readonly username?: string | undefined;
  readonly password: string;
}

export type Credentials = () => Login | Promise<Login>;

/** Asks for the login of a connection that is about to be made. */
export type AskLogin = (clock: Clock, withinMs: number) => Promise<Login>;

/**
 * What this makes of the function that was given as `name` rejects when that fails, gives nothing in time, or gives no login. The error
 * says what was wrong without a value, because there may be a secret in what was given.
 */
export function loginFrom(name: 'credentials' | 'sentinelCredentials', credentials: Credentials | undefined): AskLogin | undefined {
  if (credentials === undefined) return undefined;
  return (clock, withinMs) =>
    new Promise((resolve, reject) => {
      const fail = (what: string): void => reject(new Error(`the function ${name} ${what}`));
      const timer = clock.setTimer(() => fail(`gave nothing within ${withinMs} ms`), withinMs);
      void Promise.resolve()
        .then(credentials)
        .then(
          (given) => (isLogin(given) ? resolve(loginIn(given)) : fail(`gave ${described(given)} in place of { username?, password }`)),
          (error: unknown) => fail(error instanceof Error ? `failed: ${messageOf(error)}` : 'failed'),
        )
        .finally(() => clock.clearTimer(timer));
    });
}

/** Without what else the function gave, and without a name that it left open, which may stand in the options. */
function loginIn({ username, password }: Login): Login {
  return username === undefined ? { password } : { username, password };
}

function isLogin(given: unknown): given is Login {
  if (typeof given !== 'object' || given === null) return false;
  const { username, password } = given as { username?: unknown; password?: unknown };
  return typeof password === 'string' && password !== '' && (username === undefined || typeof username === 'string');
}

/** What a function gave, without a value of it. */
function described(given: unknown): string {
  if (typeof given !== 'object' || given === null) return given === null ? 'null' : given === undefined ? 'nothing' : `a ${typeof given}`;
  const { username, password } = given as { username?: unknown; password?: unknown };
  if (typeof password !== 'string') return 'an object whose password is no text';
  return password === '' ? 'an empty password' : `an object whose username is a ${typeof username}`;
}
