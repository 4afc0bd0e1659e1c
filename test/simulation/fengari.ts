/**
 * fengari, a Lua 5.3 in JavaScript, made to count and to print numbers like the Lua 5.1 in Redis: every number is a double,
 * whole ones print without a point, 14 digits and no more.
 */
import { createRequire } from 'node:module';

export type LuaState = object;
export type LuaText = Uint8Array;
type LuaFunction = (state: LuaState) => number;

/** The part of fengari that is used here. */
interface Fengari {
  readonly to_luastring: (text: string, cache?: boolean) => LuaText;
  readonly lua: {
    readonly LUA_REGISTRYINDEX: number;
    lua_call(state: LuaState, args: number, results: number): void;
    lua_pcall(state: LuaState, args: number, results: number, handler: number): number;
    lua_createtable(state: LuaState, list: number, fields: number): void;
    lua_error(state: LuaState): never;
    lua_getfield(state: LuaState, index: number, name: LuaText): number;
    lua_getglobal(state: LuaState, name: LuaText): number;
    lua_gettop(state: LuaState): number;
    lua_pop(state: LuaState, count: number): void;
    lua_pushboolean(state: LuaState, value: boolean): void;
    lua_pushcfunction(state: LuaState, fn: LuaFunction): void;
    lua_pushnumber(state: LuaState, value: number): void;
    lua_pushstring(state: LuaState, text: LuaText): void;
    lua_rawgeti(state: LuaState, index: number, n: number): number;
    lua_rawseti(state: LuaState, index: number, n: number): void;
    lua_setfield(state: LuaState, index: number, name: LuaText): void;
    lua_setglobal(state: LuaState, name: LuaText): void;
    lua_settop(state: LuaState, index: number): void;
    lua_toboolean(state: LuaState, index: number): boolean;
    lua_tonumber(state: LuaState, index: number): number;
    lua_tostring(state: LuaState, index: number): LuaText;
    lua_type(state: LuaState, index: number): number;
  };
  readonly lauxlib: {
    luaL_newstate(): LuaState;
    luaL_loadbuffer(state: LuaState, source: LuaText, size: number, name: LuaText): number;
    luaL_checknumber(state: LuaState, index: number): number;
    luaL_checkstring(state: LuaState, index: number): LuaText;
    luaL_ref(state: LuaState, table: number): number;
  };
  readonly lualib: { luaL_openlibs(state: LuaState): void };
}

interface NumberCell {
  setfltvalue(value: number): void;
  setsvalue(text: object): void;
  readonly value: number;
}

/** Its functions are looked up at every call, so replacing them here replaces them everywhere. */
interface FengariNumbers {
  luaO_str2num: (text: LuaText, into: NumberCell) => number;
  luaO_tostring: (state: LuaState, cell: NumberCell) => void;
}

/** What lua_type answers. */
export const LUA_TYPES = { nil: 0, boolean: 1, number: 3, string: 4, table: 5 } as const;

const require = createRequire(import.meta.url);
const fengari = require('fengari') as Fengari;
const numbers = require('fengari/src/lobject.js') as FengariNumbers;
const strings = require('fengari/src/lstring.js') as { luaS_bless: (state: LuaState, text: LuaText) => object };
export const { lua, lauxlib, lualib } = fengari;

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NUMERAL = /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|0x[\da-f]+)\s*$/i;

numbers.luaO_str2num = (text, into) => {
  let length = text.indexOf(0);
  if (length < 0) length = text.length;
  const numeral = NUMERAL.exec(asText(text.subarray(0, length)))?.[1];
  if (numeral === undefined) return 0;
  into.setfltvalue(Number(numeral));
  return length + 1;
};
numbers.luaO_tostring = (state, cell) => cell.setsvalue(strings.luaS_bless(state, encoder.encode(printed(cell.value, 14))));

/** Rounds as C does: the half to the even. */
export function wholeOf(number: number): string {
  const floor = Math.floor(number);
  const rounded = number - floor === 0.5 ? floor + (floor % 2 === 0 ? 0 : 1) : Math.round(number);
  return String(BigInt(rounded));
}

/** A number as `%.14g` (what Lua prints) and `%.17g` (what commands get) write it. */
export function printed(number: number, digits: number): string {
  if (Number.isInteger(number) && Math.abs(number) < 10 ** Math.min(digits, 15)) return String(number);
  const [mantissa = '', exponent = '0'] = number.toExponential(digits - 1).split('e');
  const power = Number(exponent);
  const trimmed = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (power >= -4 && power < digits) return trimmed(number.toFixed(Math.max(0, digits - 1 - power)));
  return `${trimmed(mantissa)}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

export function luaName(text: string): LuaText {
  return fengari.to_luastring(text, true);
}

/** Most of what goes in and out is short and plain ASCII, where this is much faster than the general way. */
export function bytesOf(text: string): LuaText {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit > 127) return encoder.encode(text);
    bytes[at] = unit;
  }
  return bytes;
}

export function asText(bytes: LuaText): string {
  let text = '';
  for (const byte of bytes) {
    if (byte > 127) return decoder.decode(bytes);
    text += String.fromCharCode(byte);
  }
  return text;
}
