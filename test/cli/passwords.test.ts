/** A URL with its password lands in the wrong place of the command line: it is refused at once, and nothing of it is printed. */
import { describe, expect, it } from '@jest/globals';
import { readArguments, UsageError } from '../../lib/cli/arguments.js';

const URL = 'redis://app:hunter2@redis.example:6379';
const SERVER = ['--redis', 'redis://localhost'];

/** What the program says to this command line. */
function refusal(...args: string[]): string {
  try {
    readArguments(args, {});
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return 'nothing';
}

const misplaced = 'a URL stands where none is expected; give it as --redis <url>';

describe('A URL with a password', () => {
  it.each<[string, string[]]>([
    ['as the command', [URL]],
    ['as a verb of redlock', ['redlock', URL, URL, URL]],
    ['as the key', ['inspect', URL, ...SERVER]],
    ['behind the key', ['inspect', 'k', URL]],
    ['as the name of a master', ['list', '--sentinel', URL, ...SERVER]],
    ['as another option', ['list', '--prefix', URL, ...SERVER]],
    ['in quotes', ['list', `"${URL}"`]],
    ['as an option', ['list', `--${URL}`]],
    ['in capitals', ['leader', URL.toUpperCase()]],
  ])('is refused without a word of it: %s', (_where, args) => expect(refusal(...args)).toBe(misplaced));

  it.each<[string, string[], string]>([
    ['without its protocol, as the command', ['app:hunter2@redis.example'], 'there is no command of that form (it looks like a URL)'],
    ['without its protocol, behind the key', ['inspect', 'k', 'app:hunter2@redis.example'], 'unexpected argument of that form (it looks like a URL); quote a key that has spaces'],
    ['without its protocol, as a verb of redlock', ['redlock', 'app:hunter2@redis.example'], 'redlock wants init, got of that form (it looks like a URL)'],
    ['of another protocol', ['list', '--redis', URL.replace('redis', 'mysql')], 'the URL of --redis starts with neither redis:// nor rediss://; a Unix socket is given by its path alone, such as /run/redis.sock'],
    ['without a protocol, behind --redis', ['list', '--redis', 'app:hunter2@redis.example'], 'the URL of --redis does not start with redis:// or rediss://'],
    ['in quotes, behind --redis', ['list', '--redis', `'${URL}'`], 'the URL of --redis has quotes around it, which are part of the value, as the env file of a container keeps them; leave them out'],
  ])('is not repeated %s', (_where, args, said) => expect(refusal(...args)).toBe(said));

  it('belongs behind --redis and redlock init, and a key may hold the URL of a page', () => {
    expect(readArguments(['list', '--redis', URL], {})).toMatchObject({ target: { urls: [URL] } });
    expect(readArguments(['redlock', 'init', URL, URL, URL], {})).toMatchObject({ target: { urls: [URL, URL, URL] } });
    expect(readArguments(['inspect', 'page:https://a.example', ...SERVER], {})).toMatchObject({ command: { key: 'page:https://a.example' } });
  });
});
