/** The section of one lock module: sums, charts, the list of its locks, and the last incidents. */
import { chart } from './charts.js';
import { LockList, waiting } from './lock-list.js';
import { clockTime, count, duration, element, whereText, work } from './wording.js';

export class InstanceSection {
  constructor(name, alone, { onRelease, lookUp }) {
    this.name = name;
    this.lookUp = lookUp;
    this.strip = element('div', 'strip');
    this.problem = element('p', 'problem');
    this.store = element('p', 'store quiet');
    const release = onRelease && ((row, holder) => onRelease(name, row, holder));
    this.leaders = new NamedList('Leaders', name, release);
    this.locks = new NamedList('Locks', name, release);
    this.found = element('ul', 'locks');
    this.foundNote = element('p', 'note quiet');
    this.note = element('p', 'note quiet');
    this.search = element('button', '', '');
    this.search.type = 'button';
    this.search.addEventListener('click', () => void this.find(this.search.dataset.key));
    this.incidents = element('section', 'incidents');
    this.element = element('section', '');
    this.element.setAttribute('aria-label', alone ? 'Locks' : `Lock module ${name}`);
    if (!alone) this.element.append(element('h2', '', `Lock module ${name}`));
    this.element.append(this.strip, this.problem, this.store, this.foundNote, this.found, this.leaders.element, this.locks.element, this.note, this.search, this.incidents);
    this.foundList = new LockList(this.found, release);
  }

  show(view, at, { text, onlyWaited }) {
    this.problem.textContent = problemOf(view);
    this.problem.hidden = this.problem.textContent === '';
    this.store.textContent = storeText(view);
    // When the store did not answer, the last rows stay, and the line above says that they are old.
    if (view.problem === undefined) this.rows = view;
    const { rows, more } = this.rows ?? view;
    this.strip.replaceChildren(sums(this.rows ?? view, view.here), ...charts(view.history));
    const shown = rows.filter((row) => matches(row, text) && (!onlyWaited || waiting(row) > 0));
    this.leaders.show(shown.filter(({ role }) => role !== undefined), at);
    this.locks.show(shown.filter(({ role }) => role === undefined), at);
    const notes = [];
    if (shown.length < rows.length) notes.push(`${count(rows.length - shown.length, 'lock does', 'locks do')} not match the filter`);
    if (more > 0) notes.push(`${more} more ${more === 1 ? 'lock is' : 'locks are'} not shown, none of which has more waiters than these`);
    if (rows.length === 0 && view.problem === undefined) notes.push('No lock is held or waited for');
    this.note.textContent = notes.length > 0 ? `${notes.join('. ')}.` : '';
    this.search.hidden = !(more > 0 && text !== '' && shown.length === 0);
    this.search.dataset.key = text;
    this.search.textContent = `Look up the lock '${text}'`;
    if (text === '') this.forget();
    this.showIncidents(view.history.incidents);
  }

  /** Looks up one lock by its key, which may have no row in the list. */
  async find(key) {
    const { row, at, message } = await this.lookUp(this.name, key);
    this.foundList.show(row === undefined ? [] : [row], at);
    this.foundNote.textContent = message ?? `Looked up at ${clockTime(at)}:`;
  }

  forget() {
    this.foundList.show([], 0);
    this.foundNote.textContent = '';
  }

  showIncidents(incidents) {
    const told = JSON.stringify(incidents);
    if (this.told === told) return;
    this.told = told;
    this.incidents.hidden = incidents.length === 0;
    const list = element('ul', '');
    for (const { at, type, key, label, message } of incidents) {
      list.append(element('li', '', element('time', '', clockTime(at)), ` ${INCIDENTS[type]} `, element('code', '', key), ` ${work({ label })}: ${message}`));
    }
    this.incidents.replaceChildren(element('h3', '', 'Lately in the process that serves this page'), list);
  }
}

/** A list with a heading, both of which are hidden while it is empty. */
class NamedList {
  constructor(heading, name, onRelease) {
    const list = element('ul', 'locks');
    list.setAttribute('aria-label', `${heading} of ${name}`);
    this.list = new LockList(list, onRelease);
    this.element = element('section', '', element('h2', 'heading', heading), list);
  }

  show(rows, at) {
    this.element.hidden = rows.length === 0;
    this.list.show(rows, at);
  }
}

function sums({ held, waitedFor, processes, led, inGrace }, here) {
  const sum = (number, what) => element('div', '', element('strong', '', String(number)), what);
  const made = element('div', 'sums', sum(held, 'held'), sum(waitedFor, 'waited for'), sum(processes, processes === 1 ? 'process waits' : 'processes wait'));
  made.append(sum(here.count, here.count === 1 ? 'call waits here' : 'calls wait here'));
  if (here.count > 0) made.append(sum(duration(here.longestMs), 'longest wait here'));
  if (led > 0) made.append(sum(led, led === 1 ? 'role led' : 'roles led'));
  if (inGrace > 0) made.append(sum(inGrace, 'in grace'));
  return made;
}

function problemOf({ problem, recovery }) {
  if (problem !== undefined) return `The store does not answer: ${problem}`;
  if (!(recovery?.recoversForMs > 0)) return '';
  return `The store may have forgotten who holds what: for ${duration(recovery.recoversForMs)} more it grants nothing new, and holders bring their leases back.`;
}

/** Where the locks are kept, and what is switched off there, as in the line of the log at boot. */
function storeText({ store, recovery }) {
  if (store === undefined) return '';
  const off = store.off.length === 0 ? '' : ` Without: ${store.off.join('; ')}.`;
  const recovered = recovery?.recoveries > 0 ? ` ${count(recovery.recoveries, 'recovery', 'recoveries')} since this process started.` : '';
  return `Kept by ${store.place}, prefix '${store.prefix}'.${off}${recovered}`;
}

function charts({ sliceMs, counts }) {
  const failed = counts.lost.map((lost, n) => lost + counts.failed[n]);
  const contention = [
    { name: 'had to wait', className: 'waiting', counts: counts.waiting },
    { name: 'refused at once', className: 'refused', counts: counts.refused },
  ];
  const trouble = [
    { name: 'gave up', className: 'busy', counts: counts.gaveUp },
    { name: 'lost or failed', className: 'lost', counts: failed },
  ];
  return [chart('Contention here', contention, sliceMs), chart('Trouble here', trouble, sliceMs)];
}

const INCIDENTS = { lost: 'lost', gaveUp: 'gave up', failed: 'failed' };

function matches(row, text) {
  if (text === '') return true;
  const named = [...row.holders, ...row.waiters].map((one) => `${work(one)} ${whereText(one)} ${one.owner ?? ''}`);
  return [row.key, row.role ?? '', ...named].some((part) => part.toLowerCase().includes(text.toLowerCase()));
}
