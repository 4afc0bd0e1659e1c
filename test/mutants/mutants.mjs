// Defects that the proof must notice, one a line: name, file, text, what stands there instead, what it breaks, and where it
// is most likely found: a profile of simulations ('single:calm', 'redlock:nodes') or a test file. `npm run mutants` applies
// each in turn in a copy of the tree. A text that is not there exactly once is an error: the list follows the code.
const lua = (file) => `lib/stores/redis/lua/${file}.lua`;
const redis = (file) => `lib/stores/redis/${file}.ts`;
const redlock = (file) => `lib/stores/redlock/${file}.ts`;
const core = (file) => `lib/core/${file}.ts`;

const list = [
  // Trust
  ['trust from receipt', redis('trust'), 'trustedUntil: sentAt + leftMs', 'trustedUntil: sentAt + 400 + leftMs', 'S1: trust is not counted from before the request', 'single:clocks'],
  ['renewed trust from receipt', redis('renewals'), 'trustedUntil: sentAt + leftMs', 'trustedUntil: sentAt + 400 + leftMs', 'S1: the same for renewals', 'single:processes'],
  ['pushed trust from arrival', redis('server-clock'), 'Math.min(sample.sentAt + sinceSample - marginOf(sinceSample), receivedAt + lengthMs - marginOf(lengthMs))', 'receivedAt + lengthMs', 'S1: a late message is trusted', 'single:processes'],
  ['no margin', redis('server-clock'), 'lengthMs * 0.01 + 5', '0', 'S1: clocks drift', 'single:clocks'],
  ['stale samples', redis('server-clock'), 'receivedAt - sample.receivedAt > FRESH_MS', 'false', 'S1: an old sample is worth nothing', 'test/redis/server-clock'],
  ['no notice of jumps', redis('server-clock'), 'if (ahead || behind) this.jumpedUntil', 'if (false as boolean) this.jumpedUntil', 'S1: a clock that was set', 'test/redis/server-clock'],
  ['hand-on without trust', core('holding'), 'if (!lease.isTrusted(now) || !alike(options, wanted)) return false;\n    if (this.turns === 0) return true;', 'if (!alike(options, wanted)) return false;\n    if (options) return true;', 'S1: handed on after its end', 'single:processes'],
  ['no deadline by time', core('watchdog'), 'if (now >= lease.trustedUntil) return this.lose', 'if (false as boolean) return this.lose', 'S3: loss is not told', 'single:network'],
  ['assertHeld believes', core('hold'), 'if (!turn.lease.isTrusted(now)) this.host', 'if (false as boolean) this.host', 'S3: assertHeld is not exact', 'single:processes'],
  ['sleep is not noticed', core('watchdog'), 'lease.trustedUntil -= sleptMs', 'lease.trustedUntil -= 0', 'S1: the machine slept', 'test/core'],
  ['forgotten leases are renewed', core('watchdog'), "if (lease.state !== 'held' || !this.leases.get(lease.id)) return;", '', 'S4: an answer for a lease that was given back', 'test/core'],
  // Scripts
  ['blind release', lua('release'), "string.sub(text, 19, 19 + #id) == id .. ' '", 'true', 'S4: deletes what somebody else holds', 'single:network'],
  ['reviving renew', lua('renew'), 'oldEnd >= nowText and ', '', 'S4: an ended lease lives again', 'test/lua/renew'],
  ['shortening renew', lua('renew'), ' and oldEnd <= newEnd', '', 'S1: what was promised before may still be trusted', 'test/lua/renew'],
  ['no prune', lua('shared/lock-record'), 'if ending >= now then', 'if true then', 'L3: the dead hold for ever', 'single:processes'],
  ['early prune', lua('shared/lock-record'), 'if ending >= now then', 'if ending >= now + 60 then', 'S1: let in before the end', 'single:processes'],
  ['plain counter', lua('shared/next-fence'), 'math.max(nowUs, floor + 1, last and last + 1 or 0)', 'last and last + 1 or 1', 'S2: restart without data', 'single:amnesia'],
  ['clock alone', lua('shared/next-fence'), 'math.max(nowUs, floor + 1, last and last + 1 or 0)', 'math.max(nowUs, floor + 1)', 'S2: reserved fences are given twice', 'single:calm'],
  ['no floor', lua('shared/next-fence'), 'math.max(nowUs, floor + 1, last and last + 1 or 0)', 'math.max(nowUs, last and last + 1 or 0)', 'S2: no data, and the clock set back', 'single:amnesia and jumps'],
  ['one fence of many', lua('shared/next-fence'), 'fence + count - 1', 'fence', 'S2: what was reserved is given again', 'single:calm'],
  ['downgrade without wake', lua('downgrade'), 'if lock.queued then admitReaders(lock) end', '', 'L1: queued readers stay outside', 'single:calm'],
  ['lost reader wake-up', lua('shared/settle'), "if lock.mode == 'r' and not firstWaiter(lock, 'w') then admitReaders(lock) end", '', 'L1: the writer gave up, its readers wait on', 'single:calm'],
  ['one reader after a writer', lua('shared/settle'), "    id, record, after = firstWaiter(lock, 'r')\n  end", '    id = nil\n  end', 'L1: readers enter together', 'single:calm'],
  ['writers first', lua('shared/settle'), "elseif lock.mode == 'w' then", "elseif lock.mode == 'x' then", 'L1: readers starve', 'test/contract/redis-store.contract'],
  ['readers pass writers', lua('acquire'), "mode == 'r' and not firstWaiter(lock, 'w') then", "mode == 'r' then", 'L1: writers starve', 'test/contract/redis-store.contract'],
  ['dead waiters count', lua('shared/queue'), 'ending and ending >= lock.now and', 'ending and', 'L3: the dead are served', 'test/lua/heartbeat'],
  ['deaf heartbeat', lua('shared/queue'), "string.format('%.0f', lock.now + WAITER_LEASE_MS) .. string.sub(record, 14)", 'record', 'L1: places are lost', 'single:calm'],
  ['long first lease', lua('shared/settle'), 'math.min(who.leaseMs, FIRST_LEASE_MS)', 'who.leaseMs', 'L3: a dead waiter holds a full lease', 'test/lua'],
  ['silent grants', lua('shared/settle'), 'lock.told[#lock.told + 1] = { id, holder, who.mode }', '', 'L2: nobody is told', 'test/lua'],
  ['silent queue', lua('shared/queue'), "lock.told[#lock.told + 1] = { holder.id, 'c ' .. holder.id }", '', 'P1: holders do not hear that somebody waits', 'test/lua'],
  ['queue of the past', lua('shared/queue'), "redis.call('DEL', lock.queueKey)", '', 'L1: a queue without its lock', 'single:jumps'],
  ['owner kept outside', lua('shared/queue'), 'if holder then return false, holder end', '', 'P13: queued before its owner was granted, it waits for it', 'test/contract/redis-store.contract'],
  ['upgrade', lua('acquire'), "if kin and lock.mode == 'r' and mode == 'w' then return 4 end", '', 'P13: an owner reads and asks to write', 'test/lua/acquire'],
  ['late acquire', redis('trust'), 'return this.clock.before(this.sourceOf(group), notAfter, now);', 'return 0 * (notAfter + now + group);', 'S5: acts after its cancel', 'test/redis'],
  ['no minHoldMs', lua('shared/leave'), 'if holder.minEnd > lock.now and not abandoned then', 'if false then', 'a job runs twice', 'test/lua/release'],
  ['minHoldMs without work', lua('shared/leave'), ' and not abandoned', '', 'a lock stays taken for nobody', 'test/lua/release'],
  ['minHoldMs is not renewed', lua('renew'), ', holder.minEnd)', ')', 'a job that was let in from the queue runs twice', 'test/lua/release'],
  ['replaces nothing', lua('acquire'), "if replaces ~= '-' then leave(lock, replaces) end", '', 'P1: the old lease stays', 'single:calm'],
  ['write first on a full server', lua('shared/close-lock'), "if lock.frees and not lock.deleted then redis.call('HDEL', lock.queueKey, '@') end", '', 'G7: a full server refuses the release', 'test/lua/release'],
  // The store beside its scripts
  ['fences are not compared', redis('acquiring'), 'if (grant.fence <= floor) return this.askAnew', 'if (false as boolean) return this.askAnew', 'S2: a server that lost its memory', 'test/redis'],
  ['pushed fences are not compared', redis('trust'), ' || push.fence <= floor', '', 'S2: a server that lost its memory', 'single:amnesia'],
  ['message before its answer', redis('places'), 'early: undefined', 'early: known?.early', 'P10: a message of before is taken for the new place', 'test/redis'],
  ['no questions after a gap', redis('redis-store'), "for (const id of this.places.ids()) this.listener({ kind: 'ask', id });", '', 'L4: messages were missed', 'test/redis'],
  // Core
  ['heartbeat is ignored', core('watchdog'), 'this.dueWaiters.push(waiter);', '', 'L4: places are lost', 'single:calm'],
  ['heartbeat asks no one', core('waiting'), "if (outcome.kind === 'granted') return this.grant(outcome.grant);", "if (outcome.kind === 'granted') return;", 'L4: a lost message is lost', 'single:deaf'],
  ['lost place while asking', core('waiting'), 'if (this.askAgain) this.ask();', '', 'L4: sleeps until its time is over', 'test/core/waiting'],
  ['no background release', core('background-release'), 'const done = this.repeat(request, this.clock.now() + endsInMs);', 'const done = Promise.resolve(request && endsInMs).then(() => {});', 'S5: an unknown outcome keeps the lock', 'test/core'],
  ['given up with minHoldMs', core('entrance'), 'turn.end(done, true)', 'turn.end(done)', 'one of several locks stays taken for nobody', 'test/core'],
  ['cancelled questions stay', core('waiting'), "    this.settle('cancelled');\n    this.giveBack();", "    this.settle('cancelled');", 'L5: who gave up is served', 'single:calm'],
  ['answers after a cancel', core('waiting'), "else if (outcome instanceof LockStoreError || outcome.kind === 'granted' || outcome.kind === 'waiting') this.giveBack(id);", '', 'L5: a release that overtook', 'test/core'],
  ['the same fence twice', core('holding'), ': this.nextFence++', ': this.nextFence', 'P1: each hand-over has its own fence', 'single:calm'],
  ['more fences than reserved', core('holding'), ' || this.nextFence >= this.endFence', '', 'S2: fences of others', 'test/core/local-queue'],
  ['hands on for ever', core('holding'), 'return !lease.contended || (this.turns < handOn && now - lease.grantedAt < SHARE_MS);', 'return true;', 'P1: others starve', 'test/core/local-queue'],
  ['hands on after minHoldMs', core('holding'), 'if (this.spent || ', 'if (', 'P1: the end in the store is bound to another hold', 'test/core'],
  ['readers join a contended lease', core('holding'), "if (options.mode === 'read') return !lease.contended;", "if (options.mode === 'read') return true;", 'L1: writers starve', 'test/core'],
  ['siblings together', core('sibling-gate'), "return this.writers === 0 && (mode === 'read' || this.readers === 0);", 'return mode !== undefined;', 'P2: siblings do not exclude each other', 'single:calm'],
  ['unawaited work inherits', core('hold-context'), 'if (hold.isOpen && (key', 'if ((key', 'P2: work after the end of its hold', 'test/core/holds'],
  ['upgrade inside a hold', core('hold-part'), 'if (!covers(this.turn.mode, options.mode)) throw upgradeError(key);', '', 'P2: reads and asks to write', 'single:calm'],
  ['maxHoldMs is renewed over', core('watchdog'), 'Math.max(1, Math.min(leaseMs, Math.floor(lease.renewUntil - this.clock.now())))', 'leaseMs', 'a hung handler holds for ever', 'test/core'],
  ['late renewals', core('watchdog'), '((lease.trustedUntil - now) / 3) * spread', '((lease.trustedUntil - now) / 0.9) * spread', 'S3: leases are lost for nothing', 'single:calm'],
  ['key queue leaks', core('key-queue'), 'if (!this.holding) return this.onIdle();', 'if (!this.holding) return;', 'L6: an entry for every key', 'single:calm'],
  ['shutdown releases', core('shutdown-gate'), 'if (this.holds > 0) await', 'if (this.holds < 0) await', 'C2: running holds get no grace', 'test/core/shutdown'],
  // Redlock
  ['no quarantine', lua('vote'), 'if not epoch.whole then', 'if false then', 'S6: votes for what it has forgotten', 'redlock:nodes'],
  ['short quarantine', lua('shared/epoch'), 'since + maxLeaseMs + 1 - now', 'since + maxLeaseMs / 8 - now', 'S6: votes while old leases last', 'redlock:nodes'],
  ['half is a quorum', redlock('quorum'), 'Math.floor(nodes / 2) + 1', 'Math.floor(nodes / 2)', 'S1: two quorums without a common node', 'redlock:calm'],
  ['the longest node decides', redlock('quorum'), '[quorumOf(nodes) - 1]', '[0]', 'S1: trusted when no quorum has it any more', 'redlock:clocks'],
  ['overdue grant', redlock('ballot'), 'if (clock.now() >= trustedUntil) {', 'if (false as boolean) {', 'S1: the vote took longer than the lease', 'test/redlock'],
  ['fence of the few', redlock('ballot'), 'if (settled.size < quorum) await', 'if (settled.size < 0) await', 'S2: a fence that no quorum knows', 'redlock:clocks'],
  ['no proposal above what was seen', redlock('ballot'), 'Math.max(floors.of(this.group) + 1, Math.floor(clock.wallNow()) * 1_000)', '1', 'S2: nodes that lost their counters', 'redlock:nodes'],
  ['admitted without fences', redlock('recovery'), 'Math.max(floors.of(group), ...surveys.map(({ fences }) => fences[group] ?? 0))', '0 * (surveys.length + floors.of(group))', 'S2: a node that lost its counters', 'test/redlock'],
  ['votes are not taken back', redlock('ballot'), 'for (const node of this.asked) this.withdraw(node);', '', 'L: split votes block each other for a lease', 'redlock:calm'],
  ['re-joins as it likes', redlock('quorum-renewals'), "outcome?.kind === 'renewed' && ends[n] === undefined", 'ends[n] === undefined', 'S1: votes where it is lost', 'test/redlock'],
];

export const mutants = list.map(([name, file, text, instead, breaks, where]) => ({ name, file, text, instead, breaks, where }));
