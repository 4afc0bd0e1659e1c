/**
 * The list of locks. The element of a lock is kept as long as the lock is shown, and only the times in it change: so an update twice
 * a second does not take away the focus or the selection.
 */
import { clockTime, count, duration, element, whereText, work } from './wording.js';

/** What of a row is a time, which changes with every look. */
const TIMES = new Set(['remainingMs', 'graceMs', 'seenForMs', 'longestMs']);

export class LockList {
  constructor(list, onRelease) {
    this.list = list;
    this.onRelease = onRelease;
    this.items = new Map();
  }

  show(rows, at) {
    const focused = document.activeElement;
    const pressed = focused?.dataset?.button;
    const keys = new Set(rows.map(({ key }) => key));
    for (const [key, item] of this.items) {
      if (keys.has(key)) continue;
      item.element.remove();
      this.items.delete(key);
    }
    rows.forEach((row, n) => {
      const item = this.itemFor(row);
      if (this.list.children[n] !== item.element) this.list.insertBefore(item.element, this.list.children[n] ?? null);
      for (const update of item.times) update(row, at);
    });
    // A button that was moved or made anew has lost the focus, so it gets it back.
    if (pressed !== undefined && document.activeElement !== focused) {
      [...this.list.querySelectorAll('button')].find((button) => button.dataset.button === pressed)?.focus();
    }
  }

  itemFor(row) {
    const known = this.items.get(row.key);
    const structure = JSON.stringify(row, (name, value) => (TIMES.has(name) ? undefined : value));
    if (known?.structure === structure) return known;
    const item = known ?? { element: element('li', 'lock') };
    item.structure = structure;
    item.times = [];
    // Candidates of a role stand for as long as another leads, which is no contention.
    item.element.classList.toggle('contended', waiting(row) > 0 && row.role === undefined);
    item.element.replaceChildren(...this.contents(row, item.times, item.element.classList.contains('open')));
    this.items.set(row.key, item);
    return item;
  }

  contents(row, times, isOpen) {
    const mode = row.mode ?? 'free';
    const badge = badgeOf(row);
    const title = element('div', 'title', element('h3', 'key', row.role ?? row.key), element('span', `badge ${mode}`, badge));
    const sides = element('div', 'sides', this.holders(row, times));
    title.append(lineOf(row, times));
    if (waiting(row) > 0) {
      title.append(element('span', 'why', waitText(row), element('span', 'for', forText(row))));
      sides.append(waiters(row, times));
    }
    title.append(moreButton(row, isOpen));
    return [title, sides];
  }

  holders(row, times) {
    const list = element('ul', '');
    row.holders.forEach((holder, n) => list.append(this.holder(row, holder, n, times)));
    if (row.moreHolders > 0) list.append(element('li', 'quiet', `and ${row.moreHolders} more`));
    if (row.holders.length === 0) list.append(element('li', 'quiet', 'nobody at this moment'));
    return element('section', 'holders', element('h4', '', row.role === undefined ? 'Held by' : 'Leads'), list);
  }

  holder(row, holder, n, times) {
    const age = element('span', 'age');
    const left = element('span', 'left');
    const facts = element('div', 'facts', age, left, element('span', 'quiet', `fence ${holder.fence}`));
    if (holder.owner !== undefined) facts.append(element('span', 'quiet', `owner ${holder.owner}`));
    times.push((now, at) => {
      const { since, remainingMs = 0, graceMs = 0 } = now.holders[n] ?? {};
      age.textContent = since === undefined ? '' : ageText(row, since, at);
      const inGrace = remainingMs <= 0 && graceMs > 0;
      const end = holder.handedOff ? `handed off, ticket until ${clockTime(at + remainingMs)}` : `lease ends in ${duration(remainingMs)} unless renewed`;
      left.classList.toggle('ended', inGrace);
      left.textContent = inGrace ? `lease has ended, free in ${duration(graceMs)} unless released` : end;
    });
    const who = element('div', '', element('strong', '', work(holder)), ' on ', element('span', 'where', whereText(holder)), facts);
    const item = element('li', 'holder', who);
    if (this.onRelease) item.append(this.button(row, holder));
    return item;
  }

  button(row, holder) {
    const button = element('button', 'danger', 'Force release…');
    button.type = 'button';
    button.dataset.button = `${row.key} ${holder.fence}`;
    button.setAttribute('aria-label', `Force release ${row.key} from ${work(holder)} on ${whereText(holder)}`);
    button.addEventListener('click', () => this.onRelease(row, holder));
    return button;
  }
}

function ageText({ role }, since, at) {
  const age = `for about ${duration(at - since)}`;
  return role === undefined ? `held ${age}` : `leads since ${clockTime(since)}, ${age}`;
}

/** What kind of lock it is, in a word or two. */
function badgeOf({ role, mode, permits, holders, moreHolders }) {
  if (role !== undefined) return 'role';
  if (permits !== undefined) return `${holders.length + moreHolders} of ${permits} in use`;
  return mode ?? 'free';
}

/** How many waiters the lock has in the store, or calls of this process that wait for it, whichever is more. */
export function waiting(row) {
  const here = row.callsHere.reduce((sum, { count: calls }) => sum + calls, 0);
  return Math.max(row.waiters.length + row.moreWaiters, here);
}

/** The holder in one line, for the view with one line for each lock. */
function lineOf(row, times) {
  const [holder] = row.holders;
  const line = element('span', 'line');
  if (holder === undefined) return line;
  const age = element('span', 'quiet');
  const others = row.holders.length + row.moreHolders - 1;
  line.append(element('strong', '', work(holder)), others > 0 ? ` and ${count(others, 'other', 'others')}` : '', ' on ', element('span', 'where', whereText(holder)), ' ', age);
  times.push((now, at) => {
    const { since, remainingMs = 0, graceMs = 0 } = now.holders[0] ?? {};
    age.textContent = remainingMs <= 0 && graceMs > 0 ? `lease ended, free in ${duration(graceMs)}` : since === undefined ? '' : `for ${duration(at - since)}`;
  });
  return line;
}

/** Opens the details of one lock in the view with one line for each. */
function moreButton(row, isOpen) {
  const button = element('button', 'more', 'Details');
  button.type = 'button';
  button.dataset.button = row.key;
  button.setAttribute('aria-label', `Details of ${row.role ?? row.key}`);
  button.setAttribute('aria-expanded', String(isOpen));
  button.addEventListener('click', () => {
    const opened = button.closest('.lock').classList.toggle('open');
    button.setAttribute('aria-expanded', String(opened));
  });
  return button;
}

/** How many wait: processes, or calls of this one if the store knows of none. */
function waitText(row) {
  const places = row.waiters.length + row.moreWaiters;
  if (row.role !== undefined) return `${count(waiting(row), 'stands', 'stand')} for election`;
  return places > 0 ? count(places, 'process waits', 'processes wait') : count(waiting(row), 'call of this process waits', 'calls of this process wait');
}

/** For what they wait, as the end of the sentence. */
function forText(row) {
  const [holder] = row.holders;
  if (row.role !== undefined) return '';
  if (holder === undefined) return '; the lock is about to be granted';
  const others = row.holders.length + row.moreHolders - 1;
  return ` for ${work(holder)}${others > 0 ? ` and ${count(others, 'other holder', 'other holders')}` : ''} to end`;
}

function waiters(row, times) {
  const isRole = row.role !== undefined;
  const section = element('section', 'waiters', element('h4', '', isRole ? 'Stands, in order of service' : 'Waiting, in order of service'));
  const list = element('ol', '');
  row.waiters.forEach((waiter, n) => {
    const seen = element('span', 'quiet');
    list.append(element('li', '', isRole ? '' : `${waiter.mode}: `, element('strong', '', work(waiter)), ' on ', element('span', 'where', whereText(waiter)), seen));
    times.push((now) => (seen.textContent = `, for at least ${duration(now.waiters[n]?.seenForMs ?? 0)}`));
  });
  if (row.waiters.length > 0) section.append(list);
  if (row.moreWaiters > 0) section.append(element('p', 'quiet', `and ${row.moreWaiters} more`));
  if (row.callsHere.length > 0) section.append(callsHere(times));
  return section;
}

/** The calls of the process that serves this page, and how long the first of them has waited. */
function callsHere(times) {
  const here = element('p', 'here');
  times.push((now) => {
    const told = now.callsHere.map((calls) => `${calls.count} × ${work(calls)} (${calls.mode}, for ${duration(calls.longestMs)})`);
    here.textContent = `Calls in the process that serves this page: ${told.join(', ')}`;
  });
  return here;
}
