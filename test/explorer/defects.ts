/**
 * Defects that the explorer must find: each stands in a copy of the scripts, or in the steps of a process, of one small world. What
 * it breaks is the promise that the shortest history ends with.
 */
import { explore, type Exploration } from './search.js';
import { RedisWorld } from './redis-world.js';
import { RedlockWorld } from './redlock-world.js';
import type { LuaDefect } from './small-server.js';
import { redisWorlds, redlockWorlds } from './worlds.js';

export interface Defect {
  readonly name: string;
  readonly world: string;
  /** A text of the shipped scripts and what stands there instead; else the defect is in the steps of the processes, by its name. */
  readonly lua?: readonly [text: string, instead: string];
  readonly breaks: string;
  /** Its shortest history is so long that only the command looks for it, not every run of the tests. */
  readonly isDeep?: boolean;
}

export const defects: readonly Defect[] = [
  { name: 'a release lets nobody in', world: 'a writer and a waiter', lua: ['    settle(lock)\n    passOn(lock,', '    passOn(lock,'], breaks: 'the record' },
  { name: 'a release deletes what somebody else holds', isDeep: true, world: 'a release that is held up', lua: ["string.sub(text, 19, 19 + #id) == id .. ' '", 'true'], breaks: 'S1' },
  { name: 'holders count for ever', world: 'a process that dies', lua: ['if ending >= now then', 'if true then'], breaks: 'the record' },
  { name: 'holders count for too short', world: 'a writer and a waiter', lua: ['if ending >= now then', 'if ending >= now + 400 then'], breaks: 'S1' },
  { name: 'an ended lease is renewed', world: 'one process to which all is late', lua: ['oldEnd >= nowText and ', ''], breaks: 'S4' },
  { name: 'the same fence twice in one instant', world: 'a writer and a waiter', lua: ['+ 1, last + 1)', '+ 1, last)'], breaks: 'S2' },
  { name: 'a yield forgets the lease that it replaces', world: 'a yield', lua: ["request.replaces == '-' or replaceLease(lock, request)", 'true'], breaks: 'L1' },
  { name: 'one reader after a writer', world: 'reading and writing at one instant', lua: ['      passed = passed + 1\n    end\n    id, record, after = liveFrom(lock, after)', '      passed = passed + 1\n    end\n    id = nil'], breaks: 'the record' },
  { name: 'readers pass writers', world: 'reading and writing at one instant', lua: ["and mode == 'r' and not firstListening(lock, 'w') then", "and mode == 'r' then"], breaks: 'L1' },
  { name: 'waiting readers pass writers', isDeep: true, world: 'reading, and a writer that gives up', lua: ["if not firstListening(lock, 'w') then admit(lock, 'r') end", "admit(lock, 'r')"], breaks: 'L1' },
  { name: 'a writer that gives up leaves readers outside', world: 'reading, and a writer that gives up', lua: ["if not firstListening(lock, 'w') then admit(lock, 'r') end", ''], breaks: 'the record' },
  { name: 'one permit more than there are', world: 'two permits at one instant', lua: ['or #lock.holders < permits or', 'or #lock.holders <= permits or'], breaks: 'the record: more holders than permits' },
  { name: 'a ticket is good for two', world: 'a ticket that two bring', lua: ["lock.holders[request.takes == 'b' and", "lock.holders[request.takes ~= 'h' and"], breaks: 'the record' },
  { name: 'an adoption keeps the fence', world: 'a ticket that two bring', lua: ['shared or nextFence(lock.fenceKey, math.max(lock.floor, holder.fence + holder.fences - 1), 1), 1', 'holder.fence, 1'], breaks: 'S2' },
  { name: 'a hold stays beside its ticket', world: 'a ticket that two bring', lua: ["lock.holders[request.takes == 'b' and", "lock.holders[request.takes ~= 't' and"], breaks: 'the record' },
  { name: 'a hand-off beside readers is repeated at once', world: 'a ticket beside readers', breaks: 'the ticket' },
  { name: 'nothing of an adoption is given back', world: 'an adoption that is held up', breaks: 'L6' },
  { name: 'a server that forgot grants at once', world: 'a flush', lua: ['local recovers, isFree = recoveryOf(lock) > 0,', 'local recovers, isFree = false,'], breaks: 'S' },
  { name: 'a new server is taken for the one before', world: 'a fail-over that lacks the last script', lua: ['string.sub(memory, 1, 17) == thisServer()', 'true'], breaks: 'S' },
  { name: 'releases are not repeated', isDeep: true, world: 'a fail-over that lacks the last script', breaks: 'L6' },
  { name: 'trust from receipt', world: 'push and answer', breaks: 'S1' },
  { name: 'pushed trust from arrival', isDeep: true, world: 'a message that comes late', breaks: 'S1' },
  { name: 'work begins without trust', world: 'one process to which all is late', breaks: 'S1' },
  { name: 'requests have no limit', world: 'one process to which all is late', breaks: 'L6' },
  { name: 'an answered release is the last word', world: 'one process to which all is late', breaks: 'L6' },
  { name: 'a node that forgot votes at once', world: 'a node that is flushed', lua: ['if recoveryOf(lock) > 0 then return { 7, now, lock.recoversForMs } end', ''], breaks: 'S' },
  { name: 'nothing is withdrawn', world: 'votes of three nodes', breaks: 'L6' },
  { name: 'votes have no limit', world: 'one process, and a vote that is held up', breaks: 'L6' },
  { name: 'votes of a ballot that is over are forgotten', world: 'one process, and a vote that is held up', breaks: 'L6' },
  { name: 'the others are not asked', world: 'the fences of a node that forgot', breaks: 'S2' },
  { name: 'one of the others is enough', world: 'the fences of a node that forgot', breaks: 'S2' },
];

/** What the explorer finds with the defect in its world. Throws when the defect is not there. */
export function plant({ name, world, lua }: Defect, most: number): Exploration {
  const text: LuaDefect | undefined = lua && { text: lua[0], instead: lua[1] };
  const defect = lua === undefined ? name : undefined;
  const redis = redisWorlds.find((plan) => plan.name === world);
  const redlock = redlockWorlds.find((plan) => plan.name === world);
  if (redis !== undefined) return planted(name, new RedisWorld({ ...redis, defect }, text), text, most);
  if (redlock !== undefined) return planted(name, new RedlockWorld({ ...redlock, defect }, text), text, most);
  throw new Error(`there is no world '${world}' for the defect '${name}'`);
}

function planted(name: string, world: RedisWorld | RedlockWorld, text: LuaDefect | undefined, most: number): Exploration {
  const found = world instanceof RedisWorld ? explore(world, most) : explore(world, most);
  if (text !== undefined && !world.server.isPlanted) throw new Error(`the text of the defect '${name}' is in no script that ran`);
  return found;
}
