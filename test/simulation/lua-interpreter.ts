/**
 * Runs the committed Lua text in this process, as Redis would.
 *
 * `redis-and-interpreter.test.ts` holds it against a real server, reply by reply and key by key.
 */
import { createHash } from 'node:crypto';
import { compile, type CompiledScript } from './lua-compiler.js';
import { bytesOf, LuaTable, printed, ServerError, textOf, type LuaValue } from './lua-values.js';

/** What `redis.call` gives, and what a script answers. */
export type LuaReply = number | string | null | readonly LuaReply[];

/** Runs one command; throws what the server would answer as an error. */
export type RedisCall = (command: readonly string[]) => LuaReply;

export class LuaInterpreter {
  private readonly scripts = new Map<string, CompiledScript>();
  private call: RedisCall = () => null;
  private readonly redis = {
    'redis.sha1hex': (text: LuaValue) => [createHash('sha1').update(String(text)).digest('hex')],
    'redis.call': (...command: readonly LuaValue[]) => [this.redisCall(command)],
    'redis.pcall': (...command: readonly LuaValue[]) => {
      try {
        return [this.redisCall(command)];
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        return [tableOf('err', bytesOf(error.message))];
      }
    },
  };

  /** Runs a script from its text. Throws a ServerError where the script does. */
  run(source: string, keys: readonly string[], args: readonly string[], call: RedisCall): LuaReply {
    this.call = call;
    const [reply] = this.compiled(source)(new LuaTable(keys.map(bytesOf)), new LuaTable(args.map(bytesOf)));
    return replyOf(reply);
  }

  /** Compiled once, as the script cache of a server does. */
  private compiled(source: string): CompiledScript {
    const known = this.scripts.get(source);
    if (known !== undefined) return known;
    const script = compile(source, this.redis);
    this.scripts.set(source, script);
    return script;
  }

  private redisCall(command: readonly LuaValue[]): LuaValue {
    const words = command.map((word) => {
      if (typeof word === 'string') return textOf(word);
      if (typeof word === 'number') return printed(word, 17);
      throw new ServerError('ERR Lua redis lib command arguments must be strings or integers');
    });
    const reply = this.call(words);
    // A status is a table. Of the commands that scripts send only SET answers one.
    return reply === 'OK' && words[0] === 'SET' ? tableOf('ok', 'OK') : valueOf(reply);
  }
}

function tableOf(field: string, value: LuaValue): LuaTable {
  const table = new LuaTable();
  table.set(field, value);
  return table;
}

/** As Redis hands replies to Lua: nothing is false. */
function valueOf(reply: LuaReply): LuaValue {
  if (reply === null) return false;
  if (typeof reply === 'number') return reply;
  return typeof reply === 'string' ? bytesOf(reply) : new LuaTable(reply.map(valueOf));
}

/** As Redis takes replies from Lua: numbers lose their fraction, a list ends at its first nil. */
function replyOf(value: LuaValue): LuaReply {
  if (typeof value === 'number') return Math.trunc(value);
  if (typeof value === 'string') return textOf(value);
  if (typeof value === 'boolean') return value ? 1 : null;
  if (!(value instanceof LuaTable)) return null;
  const status = value.get('ok');
  return typeof status === 'string' ? status : value.list.map(replyOf);
}
