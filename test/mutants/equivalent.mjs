// Mutants of `npm run mutation` that nothing can notice, each with its reason: the file, a part of the line, the reason, and, where
// not every mutant of the line is meant, what is changed and what stands there instead.
const list = [
  // lib/core/lease
  ['lib/core/lease/background-release.ts', 'this.pending.delete(done)', 'A release that was answered holds up nobody who waits for all of them; its entry is memory alone.'],
  ['lib/core/lease/background-release.ts', 'if (lease.lateUntil !== -Infinity)', 'It saves a call for most releases; releaseLate looks again.'],
  ['lib/core/lease/background-release.ts', 'if (lateUntil === -Infinity) return;', 'It saves reading the clock: -Infinity is later than nothing.'],
  ['lib/core/lease/background-release.ts', 'Math.max(0, lateUntil - now)', 'No pause before the next try is as short as 1 ms.', '0', '1'],
  ['lib/core/lease/background-release.ts', '> until) return;', 'The pause is random, and never exactly what is left.', undefined, 'this.clock.now() + retryMs >= until'],
  ['lib/core/lease/due-leases.ts', 'leases.splice(0, largest)', 'Which of the leases that are due leave first is all the same; every one leaves.', '0', '1'],
  ['lib/core/lease/guarded-lease.ts', 'if (this.listeners.length === 1 &&', 'It saves making a list; the next line does the same.', undefined, 'false'],
  ['lib/core/lease/guarded-lease.ts', 'if (this.listeners.length === 1 &&', 'It saves making a list; the next line does the same.', '1'],
  ['lib/core/lease/guarded-lease.ts', 'if (this.listeners.length === 1 &&', 'It saves making a list; the next line does the same.', '0'],
  ['lib/core/lease/guarded-lease.ts', 'else if (this.listeners.length > 0)', 'It saves making a list of nothing.'],
  ['lib/core/lease/renewal-times.ts', 'const LENGTHS = 64;', 'Any number above every length will do.', '64', '64 * 1000'],
  ['lib/core/lease/renewal-times.ts', 'this.groupOf(key) * LENGTHS + likeLength(lengthMs)', 'The numbers of two groups are as far apart downward as upward.', undefined, 'this.groupOf(key) * LENGTHS - likeLength(lengthMs)'],
  ['lib/core/lease/renewal-times.ts', 'this.known.get(group) ?? Infinity', 'A comparison with undefined is false as well; the number is there for the compiler.'],
  ['lib/core/lease/renewal-times.ts', 'known <= now + inMs ? known', 'At that instant both answers are the same.', 'known <= now + inMs', 'known < now + inMs'],
  ['lib/core/lease/schedule.ts', 'Index = -1;', 'Every number below 0 says that it is not there.', '1', '2'],
  ['lib/core/lease/schedule.ts', 'if (at < this.sortAt)', 'What is due when the noted ones are sorted may be sorted now or then.', undefined, 'at <= this.sortAt'],
  ['lib/core/lease/schedule.ts', 'this.heap.push(item);', 'put() writes the item at its position, also when that is the end.'],
  ['lib/core/lease/schedule.ts', 'this.times.push(at);', 'put() writes the time at its position, also when that is the end.'],
  ['lib/core/lease/schedule.ts', 'this.times.pop();', 'No time behind the last item of the heap is ever read.'],
  ['lib/core/lease/schedule.ts', 'this.timer = undefined;', 'Clearing a timer that has fired does nothing.'],
  ['lib/core/lease/schedule.ts', 'if (now >= this.sortAt)', 'To sort sooner costs time alone.', undefined, 'true'],
  ['lib/core/lease/schedule.ts', 'for (let parent = (index - 1) >> 1;', 'There is no time above the first one.', 'index > 0'],
  ['lib/core/lease/schedule.ts', 'for (let parent = (index - 1) >> 1;', 'Of two that are due at the same instant either may be first.', 'times[parent]! > at', 'times[parent]! >= at'],
  ['lib/core/lease/schedule.ts', 'if (child + 1 < heap.length &&', 'There is no time behind the last item, and of two that are due at the same instant either may be first.'],
  ['lib/core/lease/schedule.ts', 'if (times[child]! >= at) break;', 'Of two that are due at the same instant either may be first.', undefined, 'times[child]! > at'],
  ['lib/core/lease/store-lease.ts', 'abandoned = false;', 'No lease is given back before a caller has left it, which sets this.'],
  ['lib/core/lease/store-lease.ts', 'this.admittedAt = grantedAt;', 'It is for the compiler: admit() sets it before anybody reads it.'],
  ['lib/core/lease/store-lease.ts', 'wanted !== this.options && !areAlike', 'It saves a comparison of options that are the same object.', undefined, '!areAlike(wanted, this.options)'],
  ['lib/core/lease/store-lease.ts', 'if (a === b) return true;', 'It saves a comparison of options that are the same object.', undefined, 'false'],
  ['lib/core/lease/fence-demand.ts', 'private usedUp = 0;', 'Four times 1 is still less than the first block.', '0', '1'],
];

export const equivalent = list.map(([file, line, why, from, to]) => ({ file, line, why, from, to }));
