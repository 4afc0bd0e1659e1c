/**
 * The list of locks. The element of a lock is kept as long as the lock is shown, and only the times in it change: so an update twice
 * a second does not take away the focus or the selection.
 */
import { clockTime, count, duration, element, place, work } from './wording.js';

export class LockList {
  constructor(list, onRelease) {
    this.list = list;
    this.onRelease = onRelease;
    this.items = new Map();
  }

  show(rows, at) {
    const focused = document.activeElement;
    const fence = focused?.dataset?.fence;
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
    if (fence !== undefined && document.activeElement !== focused) {
      [...this.list.querySelectorAll('button')].find((button) => button.dataset.fence === fence)?.focus();
    }
  }

  itemFor(row) {
    const known = this.items.get(row.key);
    const structure = JSON.stringify(row, (name, value) => (name === 'remainingMs' || name === 'graceMs' ? undefined : value));
    if (known?.structure === structure) return known;
    const item = known ?? { element: element('li', 'lock') };
    item.structure = structure;
    item.times = [];
    // Candidates of a role stand for as long as another leads, which is no contention.
    item.element.className = waiting(row) > 0 && row.role === undefined ? 'lock contended' : 'lock';
    item.element.replaceChildren(...this.contents(row, item.times));
    this.items.set(row.key, item);
    return item;
  }

  contents(row, times) {
    const mode = row.mode ?? 'free';
    const badge = row.role === undefined ? mode : 'role';
    const title = element('div', 'title', element('h3', 'key', row.role ?? row.key), element('span', `badge ${mode}`, badge));
    const sides = element('div', 'sides', this.holders(row, times));
    if (waiting(row) > 0) {
      title.append(element('span', 'why', sentence(row)));
      sides.append(waiters(row));
    }
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
      const end = holder.handedOff ? `handed on, ticket until ${clockTime(at + remainingMs)}` : `lease ends in ${duration(remainingMs)} unless renewed`;
      left.textContent = inGrace ? `lease has ended, free in ${duration(graceMs)} unless released` : end;
    });
    const who = element('div', '', element('strong', '', work(holder)), ' on ', element('span', 'where', place(holder)), facts);
    const item = element('li', 'holder', who);
    if (this.onRelease) item.append(this.button(row, holder));
    return item;
  }

  button(row, holder) {
    const button = element('button', 'danger', 'Force release…');
    button.type = 'button';
    button.dataset.fence = holder.fence;
    button.setAttribute('aria-label', `Force release ${row.key} from ${work(holder)} on ${place(holder)}`);
    button.addEventListener('click', () => this.onRelease(row, holder));
    return button;
  }
}

function ageText({ role }, since, at) {
  const age = `for about ${duration(at - since)}`;
  return role === undefined ? `held ${age}` : `leads since ${clockTime(since)}, ${age}`;
}

/** How many waiters the lock has in the store, or calls of this process that wait for it, whichever is more. */
export function waiting(row) {
  const here = row.callsHere.reduce((sum, { count: calls }) => sum + calls, 0);
  return Math.max(row.waiters.length + row.moreWaiters, here);
}

/** A sentence that says who holds the lock and how many wait for it. */
function sentence(row) {
  const [holder] = row.holders;
  if (row.role !== undefined) return `${count(waiting(row), 'stands', 'stand')} for election`;
  const number = count(waiting(row), 'waits', 'wait');
  if (holder === undefined) return `${number}; the lock is about to be granted`;
  const others = row.holders.length + row.moreHolders - 1;
  return `${number} for ${work(holder)}${others > 0 ? ` and ${count(others, 'other reader', 'other readers')}` : ''} to end`;
}

function waiters(row) {
  const isRole = row.role !== undefined;
  const section = element('section', 'waiters', element('h4', '', isRole ? 'Stands, in order of service' : 'Waiting, in order of service'));
  const list = element('ol', '');
  for (const waiter of row.waiters) {
    list.append(element('li', '', isRole ? '' : `${waiter.mode}: `, element('strong', '', work(waiter)), ' on ', element('span', 'where', place(waiter))));
  }
  if (row.waiters.length > 0) section.append(list);
  if (row.moreWaiters > 0) section.append(element('p', 'quiet', `and ${row.moreWaiters} more`));
  const here = row.callsHere.map((calls) => `${calls.count} × ${work(calls)} (${calls.mode})`).join(', ');
  if (here !== '') section.append(element('p', 'here', `Calls in the process that serves this page: ${here}`));
  return section;
}
