/** The page: receives the results of the looks from the server, and shows the last one through the filter. */
import { InstanceSection } from './instance-section.js';
import { ReleaseDialog } from './release-dialog.js';
import { clockTime } from './wording.js';

const { base, forceRelease } = document.documentElement.dataset;
const status = document.getElementById('status');
const filter = document.getElementById('filter');
const onlyWaited = document.getElementById('only-waited');
const compact = document.getElementById('compact');
const instances = document.getElementById('instances');
const sections = new Map();
const NOTICE_MS = 8000;
/** With more locks than this each has one line, until somebody chooses. */
const MANY = 40;
let isChosen = false;
let last;
let noticeUntil = 0;

const dialog = new ReleaseDialog(base, (text) => {
  noticeUntil = Date.now() + NOTICE_MS;
  say('notice', text);
});

function say(state, text) {
  if (status.textContent === text) return;
  status.dataset.state = state;
  status.textContent = text;
}

function show() {
  if (last === undefined) return;
  if (!isChosen) compact.checked = last.instances.reduce((sum, { rows }) => sum + rows.length, 0) > MANY;
  document.body.classList.toggle('compact', compact.checked);
  const chosen = { text: filter.value.trim(), onlyWaited: onlyWaited.checked };
  for (const view of last.instances) sectionFor(view.name).show(view, last.at, chosen);
}

function sectionFor(name) {
  const known = sections.get(name);
  if (known) return known;
  const onRelease = forceRelease === 'true' ? (...subject) => dialog.ask(...subject) : undefined;
  const made = new InstanceSection(name, last.instances.length === 1, { onRelease, lookUp });
  sections.set(name, made);
  instances.append(made.element);
  return made;
}

async function lookUp(instance, key) {
  const at = Date.now();
  try {
    const response = await fetch(`${base}lock?${new URLSearchParams({ instance, key })}`);
    const answer = await response.json();
    if (!response.ok) return { at, message: answer.message };
    const free = answer.mode === null && answer.waiters.length === 0;
    return { row: free ? undefined : answer, at, message: free ? `Nobody holds '${key}' or waits for it.` : undefined };
  } catch {
    return { at, message: 'The server does not answer.' };
  }
}

function listen() {
  const events = new EventSource(`${base}events`);
  events.addEventListener('message', ({ data }) => {
    last = JSON.parse(data);
    if (Date.now() > noticeUntil) say('live', 'live');
    show();
  });
  events.addEventListener('error', () => {
    const gone = events.readyState === EventSource.CLOSED;
    // Every two minutes the server ends the view, and the page connects again: a moment without a connection is no problem.
    setTimeout(() => events.readyState !== EventSource.OPEN && say('broken', `No connection to the server; seen last ${last ? `at ${clockTime(last.at)}` : 'never'}.${gone ? ' Reload the page.' : ''}`), gone ? 0 : 3000);
  });
}

filter.addEventListener('input', show);
onlyWaited.addEventListener('change', show);
compact.addEventListener('change', () => {
  isChosen = true;
  show();
});
listen();
