/**
 * Runs the committed Lua text in this process, as Redis would.
 *
 * `redis-and-interpreter.test.ts` holds it against a real server, reply by reply and key by key.
 */
import { asText, bytesOf, lauxlib, lua, LUA_TYPES, lualib, luaName, printed, wholeOf, type LuaState } from './fengari.js';

/** What `redis.call` gives, and what a script answers. */
export type LuaReply = number | string | null | readonly LuaReply[];

/** Runs one command; throws what the server would answer as an error. */
export type RedisCall = (command: readonly string[]) => LuaReply;

/** An error that a command or a script ended with, in the server's words. */
export class ServerError extends Error {
  override readonly name = 'ReplyError';
}

export class LuaInterpreter {
  private readonly state = lauxlib.luaL_newstate();
  private readonly chunks = new Map<string, number>();
  private call: RedisCall = () => null;

  constructor() {
    const { state } = this;
    lualib.luaL_openlibs(state);
    lua.lua_getglobal(state, luaName('table'));
    lua.lua_getfield(state, -1, luaName('unpack'));
    lua.lua_setglobal(state, luaName('unpack'));
    lua.lua_getglobal(state, luaName('string'));
    lua.lua_pushcfunction(state, format);
    lua.lua_setfield(state, -2, luaName('format'));
    lua.lua_createtable(state, 0, 2);
    lua.lua_pushcfunction(state, (inner) => this.redisCall(inner, false));
    lua.lua_setfield(state, -2, luaName('call'));
    lua.lua_pushcfunction(state, (inner) => this.redisCall(inner, true));
    lua.lua_setfield(state, -2, luaName('pcall'));
    lua.lua_setglobal(state, luaName('redis'));
    lua.lua_settop(state, 0);
  }

  /** Runs a script from its text. Throws a ServerError where the script does. */
  run(source: string, keys: readonly string[], args: readonly string[], call: RedisCall): LuaReply {
    const { state } = this;
    lua.lua_settop(state, 0);
    this.call = call;
    lua.lua_rawgeti(state, lua.LUA_REGISTRYINDEX, this.chunk(source));
    this.setList('KEYS', keys);
    this.setList('ARGV', args);
    if (lua.lua_pcall(state, 0, 1, 0) !== 0) throw new ServerError(asText(lua.lua_tostring(state, -1)));
    return this.reply(lua.lua_gettop(state));
  }

  /** Compiled once, as the script cache of a server does. */
  private chunk(source: string): number {
    const known = this.chunks.get(source);
    if (known !== undefined) return known;
    const bytes = bytesOf(source);
    if (lauxlib.luaL_loadbuffer(this.state, bytes, bytes.length, luaName('@user_script')) !== 0) {
      throw new ServerError(`ERR Error compiling script: ${asText(lua.lua_tostring(this.state, -1))}`);
    }
    const chunk = lauxlib.luaL_ref(this.state, lua.LUA_REGISTRYINDEX);
    this.chunks.set(source, chunk);
    return chunk;
  }

  private setList(global: string, items: readonly string[]): void {
    const { state } = this;
    lua.lua_createtable(state, items.length, 0);
    items.forEach((item, at) => {
      lua.lua_pushstring(state, bytesOf(item));
      lua.lua_rawseti(state, -2, at + 1);
    });
    lua.lua_setglobal(state, luaName(global));
  }

  private redisCall(state: LuaState, protectedCall: boolean): number {
    const command: string[] = [];
    for (let at = 1; at <= lua.lua_gettop(state); at++) {
      const type = lua.lua_type(state, at);
      if (type === LUA_TYPES.number) command.push(printed(lua.lua_tonumber(state, at), 17));
      else if (type === LUA_TYPES.string) command.push(asText(lua.lua_tostring(state, at)));
      else return this.fail(state, 'Lua redis lib command arguments must be strings or integers', protectedCall);
    }
    let reply: LuaReply;
    try {
      reply = this.call(command);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      return this.fail(state, error.message, protectedCall);
    }
    this.push(state, reply);
    return 1;
  }

  private fail(state: LuaState, message: string, protectedCall: boolean): number {
    if (!protectedCall) {
      lua.lua_pushstring(state, bytesOf(message));
      return lua.lua_error(state);
    }
    lua.lua_createtable(state, 0, 1);
    lua.lua_pushstring(state, bytesOf(message));
    lua.lua_setfield(state, -2, luaName('err'));
    return 1;
  }

  /** As Redis hands replies to Lua: nothing is false. */
  private push(state: LuaState, reply: LuaReply): void {
    if (reply === null) return lua.lua_pushboolean(state, false);
    if (typeof reply === 'number') return lua.lua_pushnumber(state, reply);
    if (typeof reply === 'string') return lua.lua_pushstring(state, bytesOf(reply));
    lua.lua_createtable(state, reply.length, 0);
    reply.forEach((item, at) => {
      this.push(state, item);
      lua.lua_rawseti(state, -2, at + 1);
    });
  }

  /** As Redis takes replies from Lua: numbers lose their fraction, a list ends at its first nil. */
  private reply(index: number): LuaReply {
    const { state } = this;
    switch (lua.lua_type(state, index)) {
      case LUA_TYPES.number:
        return Math.trunc(lua.lua_tonumber(state, index));
      case LUA_TYPES.string:
        return asText(lua.lua_tostring(state, index));
      case LUA_TYPES.boolean:
        return lua.lua_toboolean(state, index) ? 1 : null;
      case LUA_TYPES.table: {
        const items: LuaReply[] = [];
        for (let at = 1; lua.lua_rawgeti(state, index, at) !== LUA_TYPES.nil; at++) {
          items.push(this.reply(lua.lua_gettop(state)));
          lua.lua_settop(state, index);
        }
        lua.lua_settop(state, index);
        return items;
      }
      default:
        return null;
    }
  }
}

/** The few conversions that scripts use, quickly; whatever else is asked for is refused. */
function format(state: LuaState): number {
  let at = 1;
  const text = asText(lauxlib.luaL_checkstring(state, 1)).replace(/%(.0f|.)/g, (_, conversion: string) => {
    if (conversion === '%') return '%';
    at++;
    if (conversion === 's') return asText(lauxlib.luaL_checkstring(state, at));
    const number = lauxlib.luaL_checknumber(state, at);
    if (conversion === 'd') return String(BigInt(Math.trunc(number)));
    if (conversion === '.0f') return wholeOf(number);
    throw new ServerError(`ERR string.format: the interpreter knows no %${conversion}`);
  });
  lua.lua_pushstring(state, bytesOf(text));
  return 1;
}
