/** Made by scripts/build-board.mjs from the files in page/; never edited. */

export const PAGE_FILES: Readonly<Record<string, string>> = {
  'board.css':
    ':root {\n' +
    '  color-scheme: light dark;\n' +
    '  --ground: #f6f7f9;\n' +
    '  --card: #ffffff;\n' +
    '  --text: #1b2230;\n' +
    '  --quiet: #59637a;\n' +
    '  --line: #d9dee8;\n' +
    '  --accent: #2f62c4;\n' +
    '  --write: #8a4b00;\n' +
    '  --write-ground: #fdeed6;\n' +
    '  --read: #155e3c;\n' +
    '  --read-ground: #dcf3e6;\n' +
    '  --danger: #b3261e;\n' +
    '  --amber: #c27803;\n' +
    '}\n' +
    '\n' +
    '@media (prefers-color-scheme: dark) {\n' +
    '  :root {\n' +
    '    --ground: #12161d;\n' +
    '    --card: #1b212b;\n' +
    '    --text: #e7ebf2;\n' +
    '    --quiet: #a3aec2;\n' +
    '    --line: #313a49;\n' +
    '    --accent: #86adf7;\n' +
    '    --write: #ffcf87;\n' +
    '    --write-ground: #45310f;\n' +
    '    --read: #8fe0b4;\n' +
    '    --read-ground: #12402a;\n' +
    '    --danger: #ff8a80;\n' +
    '    --amber: #f0b14a;\n' +
    '  }\n' +
    '}\n' +
    '\n' +
    '* { box-sizing: border-box; }\n' +
    '[hidden] { display: none !important; }\n' +
    '\n' +
    'body {\n' +
    '  margin: 0 auto;\n' +
    '  max-width: 76rem;\n' +
    '  padding: 0.75rem 1rem 3rem;\n' +
    '  background: var(--ground);\n' +
    '  color: var(--text);\n' +
    '  font: 15px/1.45 system-ui, sans-serif;\n' +
    '}\n' +
    '\n' +
    'h1, h2, h3, h4, p, ul, ol, figure { margin: 0; padding: 0; }\n' +
    'ul { list-style: none; }\n' +
    'h1 { font-size: 1.4rem; }\n' +
    'h2 { font-size: 1.15rem; }\n' +
    'h4 { font-size: 0.8rem; font-weight: 600; color: var(--quiet); }\n' +
    '.quiet, time { color: var(--quiet); }\n' +
    'code, .key, .where { font-family: ui-monospace, \'DejaVu Sans Mono\', monospace; overflow-wrap: anywhere; }\n' +
    '\n' +
    'header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; }\n' +
    '#status { color: var(--quiet); }\n' +
    '#status[data-state=\'live\']::before { content: \'● \'; color: var(--read); }\n' +
    '#status[data-state=\'broken\'], .problem { color: var(--danger); font-weight: 600; }\n' +
    '\n' +
    '#filters { display: flex; flex-wrap: wrap; align-items: center; gap: 0.4rem 0.75rem; margin: 0.75rem 0; }\n' +
    '#filter { flex: 1 1 12rem; min-width: 0; }\n' +
    'input[type=\'search\'], button {\n' +
    '  font: inherit;\n' +
    '  color: inherit;\n' +
    '  background: var(--card);\n' +
    '  border: 1px solid var(--quiet);\n' +
    '  border-radius: 6px;\n' +
    '  padding: 0.35rem 0.6rem;\n' +
    '}\n' +
    'button { cursor: pointer; min-height: 2.2rem; }\n' +
    'button.danger { border-color: var(--danger); color: var(--danger); }\n' +
    ':focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }\n' +
    '\n' +
    '.strip { display: grid; grid-template-columns: minmax(14rem, auto) 1fr 1fr; gap: 0.75rem; margin: 0.5rem 0 1rem; }\n' +
    '.sums { display: flex; flex-wrap: wrap; gap: 0.4rem 1rem; align-items: center; font-size: 0.87rem; }\n' +
    '.sums div { text-align: center; }\n' +
    '.sums strong { display: block; font-size: 1.4rem; line-height: 1.2; white-space: nowrap; }\n' +
    'figure, .lock, .incidents { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 0.5rem 0.75rem; }\n' +
    'figcaption { font-size: 0.8rem; color: var(--quiet); }\n' +
    'svg.chart { display: block; width: 100%; height: 44px; margin-top: 0.25rem; }\n' +
    'svg.chart .waiting { fill: var(--accent); }\n' +
    'svg.chart .refused { fill: var(--quiet); }\n' +
    'svg.chart .busy { fill: var(--amber); }\n' +
    'svg.chart .lost { fill: var(--danger); }\n' +
    'svg.chart .ground { stroke: var(--line); }\n' +
    '\n' +
    '.locks { display: grid; gap: 0.5rem; }\n' +
    '.lock { border-left: 4px solid var(--line); }\n' +
    '.lock.contended { border-left-color: var(--amber); }\n' +
    '.lock .title { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0.15rem 0.6rem; }\n' +
    '.lock h3 { font-size: 1rem; }\n' +
    '.badge { border-radius: 4px; padding: 0 0.4rem; font-size: 0.8rem; font-weight: 600; }\n' +
    '.badge.write { color: var(--write); background: var(--write-ground); }\n' +
    '.badge.read { color: var(--read); background: var(--read-ground); }\n' +
    '.badge.free { color: var(--quiet); border: 1px solid var(--line); }\n' +
    '.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 0.5rem 1.5rem; margin-top: 0.35rem; }\n' +
    '.sides:not(:has(.waiters)) { grid-template-columns: 1fr; }\n' +
    '.holder { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: start; gap: 0.25rem 1rem; padding: 0.15rem 0; }\n' +
    '.holder > div { min-width: 0; }\n' +
    '.facts { display: flex; flex-wrap: wrap; gap: 0 0.9rem; font-size: 0.87rem; }\n' +
    '.waiters ol { padding-left: 1.6rem; }\n' +
    '.left.ended { color: var(--danger); }\n' +
    '.heading { margin: 0.9rem 0 0.35rem; font-size: 1rem; }\n' +
    '.store { margin: 0 0 0.5rem; font-size: 0.87rem; overflow-wrap: anywhere; }\n' +
    '.line, .more { display: none; }\n' +
    '.compact .locks { gap: 0.2rem; }\n' +
    '.compact .lock { padding: 0.15rem 0.6rem; border-radius: 5px; }\n' +
    '.compact .title { align-items: center; }\n' +
    '.compact .line { display: inline; min-width: 0; overflow-wrap: anywhere; }\n' +
    '.compact .more { display: inline-block; margin-left: auto; min-height: 1.7rem; padding: 0 0.5rem; font-size: 0.8rem; }\n' +
    '.compact .lock:not(.open) .sides { display: none; }\n' +
    '.compact .lock.open .line, .compact .lock:not(.open) .for { display: none; }\n' +
    '.compact .why { font-weight: 600; }\n' +
    '.incidents { margin-top: 1rem; }\n' +
    '.incidents li { padding: 0.2rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }\n' +
    '.incidents h3 { font-size: 0.9rem; }\n' +
    '.note { padding: 0.5rem 0; }\n' +
    '.note:empty, .locks:empty { display: none; }\n' +
    '\n' +
    'dialog { max-width: min(32rem, calc(100vw - 2rem)); border: 1px solid var(--line); border-radius: 10px; background: var(--card); color: var(--text); }\n' +
    'dialog::backdrop { background: rgb(0 0 0 / 45%); }\n' +
    'dialog p { margin: 0.6rem 0; overflow-wrap: anywhere; }\n' +
    '.buttons { display: flex; flex-wrap: wrap; justify-content: flex-end; gap: 0.6rem; }\n' +
    '\n' +
    '@media (max-width: 48rem) {\n' +
    '  .strip { grid-template-columns: 1fr 1fr; }\n' +
    '  .sums { grid-column: 1 / -1; justify-content: space-around; }\n' +
    '  .sides { grid-template-columns: 1fr; }\n' +
    '}\n',
  'board.html':
    '<!doctype html>\n' +
    '<html lang="en" data-base="{{base}}" data-force-release="{{forceRelease}}">\n' +
    '  <head>\n' +
    '    <meta charset="utf-8">\n' +
    '    <meta name="viewport" content="width=device-width, initial-scale=1">\n' +
    '    <title>Locks</title>\n' +
    '    <link rel="icon" href="{{base}}page/icon.svg">\n' +
    '    <link rel="stylesheet" href="{{base}}page/board.css">\n' +
    '    <script type="module" src="{{base}}page/board.js"></script>\n' +
    '  </head>\n' +
    '  <body>\n' +
    '    <header>\n' +
    '      <h1>Locks</h1>\n' +
    '      <p id="status" role="status">Connecting…</p>\n' +
    '    </header>\n' +
    '    <section id="filters" aria-label="Filter">\n' +
    '      <label for="filter">Key, label or host</label>\n' +
    '      <input id="filter" type="search" autocomplete="off" spellcheck="false">\n' +
    '      <label class="check"><input id="only-waited" type="checkbox"> Only what is waited for</label>\n' +
    '      <label class="check"><input id="compact" type="checkbox"> One line for each lock</label>\n' +
    '    </section>\n' +
    '    <main id="instances"></main>\n' +
    '    <dialog id="release" aria-labelledby="release-title">\n' +
    '      <h2 id="release-title">Take the lock away?</h2>\n' +
    '      <p id="release-what"></p>\n' +
    '      <p>The holder is told that it lost the lock, but its work may go on for a moment, beside that of the next holder.</p>\n' +
    '      <div class="buttons">\n' +
    '        <button id="release-cancel" type="button">Leave it</button>\n' +
    '        <button id="release-confirm" type="button" class="danger">Take it away</button>\n' +
    '      </div>\n' +
    '    </dialog>\n' +
    '    <noscript>The board draws itself with its own script; without scripts, use the command holdfast.</noscript>\n' +
    '  </body>\n' +
    '</html>\n',
  'board.js':
    '/** The page: receives the results of the looks from the server, and shows the last one through the filter. */\n' +
    'import { InstanceSection } from \'./instance-section.js\';\n' +
    'import { ReleaseDialog } from \'./release-dialog.js\';\n' +
    'import { clockTime } from \'./wording.js\';\n' +
    '\n' +
    'const { base, forceRelease } = document.documentElement.dataset;\n' +
    'const status = document.getElementById(\'status\');\n' +
    'const filter = document.getElementById(\'filter\');\n' +
    'const onlyWaited = document.getElementById(\'only-waited\');\n' +
    'const compact = document.getElementById(\'compact\');\n' +
    'const instances = document.getElementById(\'instances\');\n' +
    'const sections = new Map();\n' +
    'const NOTICE_MS = 8000;\n' +
    '/** With more locks than this each has one line, until somebody chooses. */\n' +
    'const MANY = 40;\n' +
    'let isChosen = false;\n' +
    'let last;\n' +
    'let noticeUntil = 0;\n' +
    '\n' +
    'const dialog = new ReleaseDialog(base, (text) => {\n' +
    '  noticeUntil = Date.now() + NOTICE_MS;\n' +
    '  say(\'notice\', text);\n' +
    '});\n' +
    '\n' +
    'function say(state, text) {\n' +
    '  if (status.textContent === text) return;\n' +
    '  status.dataset.state = state;\n' +
    '  status.textContent = text;\n' +
    '}\n' +
    '\n' +
    'function show() {\n' +
    '  if (last === undefined) return;\n' +
    '  if (!isChosen) compact.checked = last.instances.reduce((sum, { rows }) => sum + rows.length, 0) > MANY;\n' +
    '  document.body.classList.toggle(\'compact\', compact.checked);\n' +
    '  const chosen = { text: filter.value.trim(), onlyWaited: onlyWaited.checked };\n' +
    '  for (const view of last.instances) sectionFor(view.name).show(view, last.at, chosen);\n' +
    '}\n' +
    '\n' +
    'function sectionFor(name) {\n' +
    '  const known = sections.get(name);\n' +
    '  if (known) return known;\n' +
    '  const onRelease = forceRelease === \'true\' ? (...subject) => dialog.ask(...subject) : undefined;\n' +
    '  const made = new InstanceSection(name, last.instances.length === 1, { onRelease, lookUp });\n' +
    '  sections.set(name, made);\n' +
    '  instances.append(made.element);\n' +
    '  return made;\n' +
    '}\n' +
    '\n' +
    'async function lookUp(instance, key) {\n' +
    '  const at = Date.now();\n' +
    '  try {\n' +
    '    const response = await fetch(`${base}lock?${new URLSearchParams({ instance, key })}`);\n' +
    '    const answer = await response.json();\n' +
    '    if (!response.ok) return { at, message: answer.message };\n' +
    '    const free = answer.mode === null && answer.waiters.length === 0;\n' +
    '    return { row: free ? undefined : answer, at, message: free ? `Nobody holds \'${key}\' or waits for it.` : undefined };\n' +
    '  } catch {\n' +
    '    return { at, message: \'The server does not answer.\' };\n' +
    '  }\n' +
    '}\n' +
    '\n' +
    'function listen() {\n' +
    '  const events = new EventSource(`${base}events`);\n' +
    '  events.addEventListener(\'message\', ({ data }) => {\n' +
    '    last = JSON.parse(data);\n' +
    '    if (Date.now() > noticeUntil) say(\'live\', \'live\');\n' +
    '    show();\n' +
    '  });\n' +
    '  events.addEventListener(\'error\', () => {\n' +
    '    const gone = events.readyState === EventSource.CLOSED;\n' +
    '    // Every two minutes the server ends the view, and the page connects again: a moment without a connection is no problem.\n' +
    '    setTimeout(() => events.readyState !== EventSource.OPEN && say(\'broken\', `No connection to the server; seen last ${last ? `at ${clockTime(last.at)}` : \'never\'}.${gone ? \' Reload the page.\' : \'\'}`), gone ? 0 : 3000);\n' +
    '  });\n' +
    '}\n' +
    '\n' +
    'filter.addEventListener(\'input\', show);\n' +
    'onlyWaited.addEventListener(\'change\', show);\n' +
    'compact.addEventListener(\'change\', () => {\n' +
    '  isChosen = true;\n' +
    '  show();\n' +
    '});\n' +
    'listen();\n',
  'charts.js':
    '/** Small bar charts of the last minutes, with a description in words for screen readers. */\n' +
    'import { element } from \'./wording.js\';\n' +
    '\n' +
    'const SVG = \'http://www.w3.org/2000/svg\';\n' +
    'const HEIGHT = 40;\n' +
    'const BAR = 4;\n' +
    '\n' +
    '/** One chart. The series, of the form [{ name, className, counts }], are stacked with the first at the bottom. */\n' +
    'export function chart(title, series, sliceMs) {\n' +
    '  const slices = series[0].counts.length;\n' +
    '  const sums = series[0].counts.map((_, n) => series.reduce((sum, { counts }) => sum + counts[n], 0));\n' +
    '  const most = Math.max(1, ...sums);\n' +
    '  const svg = shape(\'svg\', { class: \'chart\', viewBox: `0 0 ${slices * BAR} ${HEIGHT}`, preserveAspectRatio: \'none\', role: \'img\' });\n' +
    '  const minutes = Math.round((slices * sliceMs) / 60_000);\n' +
    '  const told = series.map(({ name, counts }) => `${counts.reduce((sum, one) => sum + one, 0)} ${name}`).join(\', \');\n' +
    '  svg.setAttribute(\'aria-label\', `${title} in the last ${minutes} minutes: ${told}`);\n' +
    '  svg.append(shape(\'line\', { class: \'ground\', x1: 0, x2: slices * BAR, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));\n' +
    '  for (let n = 0; n < slices; n += 1) {\n' +
    '    let top = HEIGHT;\n' +
    '    for (const { className, counts } of series) {\n' +
    '      if (counts[n] === 0) continue;\n' +
    '      const height = Math.max(1.5, (counts[n] / most) * (HEIGHT - 2));\n' +
    '      top -= height;\n' +
    '      svg.append(shape(\'rect\', { class: className, x: n * BAR, y: top, width: BAR - 1, height }));\n' +
    '    }\n' +
    '  }\n' +
    '  return element(\'figure\', \'\', element(\'figcaption\', \'\', `${title}, last ${minutes} min: `, element(\'strong\', \'\', told)), svg);\n' +
    '}\n' +
    '\n' +
    'function shape(name, attributes) {\n' +
    '  const made = document.createElementNS(SVG, name);\n' +
    '  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);\n' +
    '  return made;\n' +
    '}\n',
  'icon.svg':
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="none" stroke="#3b6fd4" stroke-width="2" d="M5 7V5a3 3 0 0 1 6 0v2"/><rect x="3" y="7" width="10" height="7" rx="1.5" fill="#3b6fd4"/></svg>\n',
  'instance-section.js':
    '/** The section of one lock module: sums, charts, the list of its locks, and the last incidents. */\n' +
    'import { chart } from \'./charts.js\';\n' +
    'import { LockList, waiting } from \'./lock-list.js\';\n' +
    'import { clockTime, count, duration, element, whereText, work } from \'./wording.js\';\n' +
    '\n' +
    'export class InstanceSection {\n' +
    '  constructor(name, alone, { onRelease, lookUp }) {\n' +
    '    this.name = name;\n' +
    '    this.lookUp = lookUp;\n' +
    '    this.strip = element(\'div\', \'strip\');\n' +
    '    this.problem = element(\'p\', \'problem\');\n' +
    '    this.store = element(\'p\', \'store quiet\');\n' +
    '    const release = onRelease && ((row, holder) => onRelease(name, row, holder));\n' +
    '    this.leaders = new NamedList(\'Leaders\', name, release);\n' +
    '    this.locks = new NamedList(\'Locks\', name, release);\n' +
    '    this.found = element(\'ul\', \'locks\');\n' +
    '    this.foundNote = element(\'p\', \'note quiet\');\n' +
    '    this.note = element(\'p\', \'note quiet\');\n' +
    '    this.search = element(\'button\', \'\', \'\');\n' +
    '    this.search.type = \'button\';\n' +
    '    this.search.addEventListener(\'click\', () => void this.find(this.search.dataset.key));\n' +
    '    this.incidents = element(\'section\', \'incidents\');\n' +
    '    this.element = element(\'section\', \'\');\n' +
    '    this.element.setAttribute(\'aria-label\', alone ? \'Locks\' : `Lock module ${name}`);\n' +
    '    if (!alone) this.element.append(element(\'h2\', \'\', `Lock module ${name}`));\n' +
    '    this.element.append(this.strip, this.problem, this.store, this.foundNote, this.found, this.leaders.element, this.locks.element, this.note, this.search, this.incidents);\n' +
    '    this.foundList = new LockList(this.found, release);\n' +
    '  }\n' +
    '\n' +
    '  show(view, at, { text, onlyWaited }) {\n' +
    '    this.problem.textContent = problemOf(view);\n' +
    '    this.problem.hidden = this.problem.textContent === \'\';\n' +
    '    this.store.textContent = storeText(view);\n' +
    '    // When the store did not answer, the last rows stay, and the line above says that they are old.\n' +
    '    if (view.problem === undefined) this.rows = view;\n' +
    '    const { rows, more } = this.rows ?? view;\n' +
    '    this.strip.replaceChildren(sums(this.rows ?? view, view.here), ...charts(view.history));\n' +
    '    const shown = rows.filter((row) => matches(row, text) && (!onlyWaited || waiting(row) > 0));\n' +
    '    this.leaders.show(shown.filter(({ role }) => role !== undefined), at);\n' +
    '    this.locks.show(shown.filter(({ role }) => role === undefined), at);\n' +
    '    const notes = [];\n' +
    '    if (shown.length < rows.length) notes.push(`${count(rows.length - shown.length, \'lock does\', \'locks do\')} not match the filter`);\n' +
    '    if (more > 0) notes.push(`${more} more ${more === 1 ? \'lock is\' : \'locks are\'} not shown, none of which has more waiters than these`);\n' +
    '    if (rows.length === 0 && view.problem === undefined) notes.push(\'No lock is held or waited for\');\n' +
    '    this.note.textContent = notes.length > 0 ? `${notes.join(\'. \')}.` : \'\';\n' +
    '    this.search.hidden = !(more > 0 && text !== \'\' && shown.length === 0);\n' +
    '    this.search.dataset.key = text;\n' +
    '    this.search.textContent = `Look up the lock \'${text}\'`;\n' +
    '    if (text === \'\') this.forget();\n' +
    '    this.showIncidents(view.history.incidents);\n' +
    '  }\n' +
    '\n' +
    '  /** Looks up one lock by its key, which may have no row in the list. */\n' +
    '  async find(key) {\n' +
    '    const { row, at, message } = await this.lookUp(this.name, key);\n' +
    '    this.foundList.show(row === undefined ? [] : [row], at);\n' +
    '    this.foundNote.textContent = message ?? `Looked up at ${clockTime(at)}:`;\n' +
    '  }\n' +
    '\n' +
    '  forget() {\n' +
    '    this.foundList.show([], 0);\n' +
    '    this.foundNote.textContent = \'\';\n' +
    '  }\n' +
    '\n' +
    '  showIncidents(incidents) {\n' +
    '    const told = JSON.stringify(incidents);\n' +
    '    if (this.told === told) return;\n' +
    '    this.told = told;\n' +
    '    this.incidents.hidden = incidents.length === 0;\n' +
    '    const list = element(\'ul\', \'\');\n' +
    '    for (const { at, type, key, label, message } of incidents) {\n' +
    '      list.append(element(\'li\', \'\', element(\'time\', \'\', clockTime(at)), ` ${INCIDENTS[type]} `, element(\'code\', \'\', key), ` ${work({ label })}: ${message}`));\n' +
    '    }\n' +
    '    this.incidents.replaceChildren(element(\'h3\', \'\', \'Lately in the process that serves this page\'), list);\n' +
    '  }\n' +
    '}\n' +
    '\n' +
    '/** A list with a heading, both of which are hidden while it is empty. */\n' +
    'class NamedList {\n' +
    '  constructor(heading, name, onRelease) {\n' +
    '    const list = element(\'ul\', \'locks\');\n' +
    '    list.setAttribute(\'aria-label\', `${heading} of ${name}`);\n' +
    '    this.list = new LockList(list, onRelease);\n' +
    '    this.element = element(\'section\', \'\', element(\'h2\', \'heading\', heading), list);\n' +
    '  }\n' +
    '\n' +
    '  show(rows, at) {\n' +
    '    this.element.hidden = rows.length === 0;\n' +
    '    this.list.show(rows, at);\n' +
    '  }\n' +
    '}\n' +
    '\n' +
    'function sums({ held, waitedFor, processes, led, inGrace }, here) {\n' +
    '  const sum = (number, what) => element(\'div\', \'\', element(\'strong\', \'\', String(number)), what);\n' +
    '  const made = element(\'div\', \'sums\', sum(held, \'held\'), sum(waitedFor, \'waited for\'), sum(processes, processes === 1 ? \'process waits\' : \'processes wait\'));\n' +
    '  made.append(sum(here.count, here.count === 1 ? \'call waits here\' : \'calls wait here\'));\n' +
    '  if (here.count > 0) made.append(sum(duration(here.longestMs), \'longest wait here\'));\n' +
    '  if (led > 0) made.append(sum(led, led === 1 ? \'role led\' : \'roles led\'));\n' +
    '  if (inGrace > 0) made.append(sum(inGrace, \'in grace\'));\n' +
    '  return made;\n' +
    '}\n' +
    '\n' +
    'function problemOf({ problem, recovery }) {\n' +
    '  if (problem !== undefined) return `The store does not answer: ${problem}`;\n' +
    '  if (!(recovery?.recoversForMs > 0)) return \'\';\n' +
    '  return `The store may have forgotten who holds what: for ${duration(recovery.recoversForMs)} more it grants nothing new, and holders bring their leases back.`;\n' +
    '}\n' +
    '\n' +
    '/** Where the locks are kept, and what is switched off there, as in the line of the log at boot. */\n' +
    'function storeText({ store, recovery }) {\n' +
    '  if (store === undefined) return \'\';\n' +
    '  const off = store.off.length === 0 ? \'\' : ` Without: ${store.off.join(\'; \')}.`;\n' +
    '  const recovered = recovery?.recoveries > 0 ? ` ${count(recovery.recoveries, \'recovery\', \'recoveries\')} since this process started.` : \'\';\n' +
    '  return `Kept by ${store.place}, prefix \'${store.prefix}\'.${off}${recovered}`;\n' +
    '}\n' +
    '\n' +
    'function charts({ sliceMs, counts }) {\n' +
    '  const failed = counts.lost.map((lost, n) => lost + counts.failed[n]);\n' +
    '  const contention = [\n' +
    '    { name: \'had to wait\', className: \'waiting\', counts: counts.waiting },\n' +
    '    { name: \'refused at once\', className: \'refused\', counts: counts.refused },\n' +
    '  ];\n' +
    '  const trouble = [\n' +
    '    { name: \'gave up\', className: \'busy\', counts: counts.gaveUp },\n' +
    '    { name: \'lost or failed\', className: \'lost\', counts: failed },\n' +
    '  ];\n' +
    '  return [chart(\'Contention here\', contention, sliceMs), chart(\'Trouble here\', trouble, sliceMs)];\n' +
    '}\n' +
    '\n' +
    'const INCIDENTS = { lost: \'lost\', gaveUp: \'gave up\', failed: \'failed\' };\n' +
    '\n' +
    'function matches(row, text) {\n' +
    '  if (text === \'\') return true;\n' +
    '  const named = [...row.holders, ...row.waiters].map((one) => `${work(one)} ${whereText(one)} ${one.owner ?? \'\'}`);\n' +
    '  return [row.key, row.role ?? \'\', ...named].some((part) => part.toLowerCase().includes(text.toLowerCase()));\n' +
    '}\n',
  'lock-list.js':
    '/**\n' +
    ' * The list of locks. The element of a lock is kept as long as the lock is shown, and only the times in it change: so an update twice\n' +
    ' * a second does not take away the focus or the selection.\n' +
    ' */\n' +
    'import { clockTime, count, duration, element, whereText, work } from \'./wording.js\';\n' +
    '\n' +
    '/** What of a row is a time, which changes with every look. */\n' +
    'const TIMES = new Set([\'remainingMs\', \'graceMs\', \'seenForMs\', \'longestMs\']);\n' +
    '\n' +
    'export class LockList {\n' +
    '  constructor(list, onRelease) {\n' +
    '    this.list = list;\n' +
    '    this.onRelease = onRelease;\n' +
    '    this.items = new Map();\n' +
    '  }\n' +
    '\n' +
    '  show(rows, at) {\n' +
    '    const focused = document.activeElement;\n' +
    '    const pressed = focused?.dataset?.button;\n' +
    '    const keys = new Set(rows.map(({ key }) => key));\n' +
    '    for (const [key, item] of this.items) {\n' +
    '      if (keys.has(key)) continue;\n' +
    '      item.element.remove();\n' +
    '      this.items.delete(key);\n' +
    '    }\n' +
    '    rows.forEach((row, n) => {\n' +
    '      const item = this.itemFor(row);\n' +
    '      if (this.list.children[n] !== item.element) this.list.insertBefore(item.element, this.list.children[n] ?? null);\n' +
    '      for (const update of item.times) update(row, at);\n' +
    '    });\n' +
    '    // A button that was moved or made anew has lost the focus, so it gets it back.\n' +
    '    if (pressed !== undefined && document.activeElement !== focused) {\n' +
    '      [...this.list.querySelectorAll(\'button\')].find((button) => button.dataset.button === pressed)?.focus();\n' +
    '    }\n' +
    '  }\n' +
    '\n' +
    '  itemFor(row) {\n' +
    '    const known = this.items.get(row.key);\n' +
    '    const structure = JSON.stringify(row, (name, value) => (TIMES.has(name) ? undefined : value));\n' +
    '    if (known?.structure === structure) return known;\n' +
    '    const item = known ?? { element: element(\'li\', \'lock\') };\n' +
    '    item.structure = structure;\n' +
    '    item.times = [];\n' +
    '    // Candidates of a role stand for as long as another leads, which is no contention.\n' +
    '    item.element.classList.toggle(\'contended\', waiting(row) > 0 && row.role === undefined);\n' +
    '    item.element.replaceChildren(...this.contents(row, item.times, item.element.classList.contains(\'open\')));\n' +
    '    this.items.set(row.key, item);\n' +
    '    return item;\n' +
    '  }\n' +
    '\n' +
    '  contents(row, times, isOpen) {\n' +
    '    const mode = row.mode ?? \'free\';\n' +
    '    const badge = badgeOf(row);\n' +
    '    const title = element(\'div\', \'title\', element(\'h3\', \'key\', row.role ?? row.key), element(\'span\', `badge ${mode}`, badge));\n' +
    '    const sides = element(\'div\', \'sides\', this.holders(row, times));\n' +
    '    title.append(lineOf(row, times));\n' +
    '    if (waiting(row) > 0) {\n' +
    '      title.append(element(\'span\', \'why\', waitText(row), element(\'span\', \'for\', forText(row))));\n' +
    '      sides.append(waiters(row, times));\n' +
    '    }\n' +
    '    title.append(moreButton(row, isOpen));\n' +
    '    return [title, sides];\n' +
    '  }\n' +
    '\n' +
    '  holders(row, times) {\n' +
    '    const list = element(\'ul\', \'\');\n' +
    '    row.holders.forEach((holder, n) => list.append(this.holder(row, holder, n, times)));\n' +
    '    if (row.moreHolders > 0) list.append(element(\'li\', \'quiet\', `and ${row.moreHolders} more`));\n' +
    '    if (row.holders.length === 0) list.append(element(\'li\', \'quiet\', \'nobody at this moment\'));\n' +
    '    return element(\'section\', \'holders\', element(\'h4\', \'\', row.role === undefined ? \'Held by\' : \'Leads\'), list);\n' +
    '  }\n' +
    '\n' +
    '  holder(row, holder, n, times) {\n' +
    '    const age = element(\'span\', \'age\');\n' +
    '    const left = element(\'span\', \'left\');\n' +
    '    const facts = element(\'div\', \'facts\', age, left, element(\'span\', \'quiet\', `fence ${holder.fence}`));\n' +
    '    if (holder.owner !== undefined) facts.append(element(\'span\', \'quiet\', `owner ${holder.owner}`));\n' +
    '    times.push((now, at) => {\n' +
    '      const { since, remainingMs = 0, graceMs = 0 } = now.holders[n] ?? {};\n' +
    '      age.textContent = since === undefined ? \'\' : ageText(row, since, at);\n' +
    '      const inGrace = remainingMs <= 0 && graceMs > 0;\n' +
    '      const end = holder.handedOff ? `handed off, ticket until ${clockTime(at + remainingMs)}` : `lease ends in ${duration(remainingMs)} unless renewed`;\n' +
    '      left.classList.toggle(\'ended\', inGrace);\n' +
    '      left.textContent = inGrace ? `lease has ended, free in ${duration(graceMs)} unless released` : end;\n' +
    '    });\n' +
    '    const who = element(\'div\', \'\', element(\'strong\', \'\', work(holder)), \' on \', element(\'span\', \'where\', whereText(holder)), facts);\n' +
    '    const item = element(\'li\', \'holder\', who);\n' +
    '    if (this.onRelease) item.append(this.button(row, holder));\n' +
    '    return item;\n' +
    '  }\n' +
    '\n' +
    '  button(row, holder) {\n' +
    '    const button = element(\'button\', \'danger\', \'Force release…\');\n' +
    '    button.type = \'button\';\n' +
    '    button.dataset.button = `${row.key} ${holder.fence}`;\n' +
    '    button.setAttribute(\'aria-label\', `Force release ${row.key} from ${work(holder)} on ${whereText(holder)}`);\n' +
    '    button.addEventListener(\'click\', () => this.onRelease(row, holder));\n' +
    '    return button;\n' +
    '  }\n' +
    '}\n' +
    '\n' +
    'function ageText({ role }, since, at) {\n' +
    '  const age = `for about ${duration(at - since)}`;\n' +
    '  return role === undefined ? `held ${age}` : `leads since ${clockTime(since)}, ${age}`;\n' +
    '}\n' +
    '\n' +
    '/** What kind of lock it is, in a word or two. */\n' +
    'function badgeOf({ role, mode, permits, holders, moreHolders }) {\n' +
    '  if (role !== undefined) return \'role\';\n' +
    '  if (permits !== undefined) return `${holders.length + moreHolders} of ${permits} in use`;\n' +
    '  return mode ?? \'free\';\n' +
    '}\n' +
    '\n' +
    '/** How many waiters the lock has in the store, or calls of this process that wait for it, whichever is more. */\n' +
    'export function waiting(row) {\n' +
    '  const here = row.callsHere.reduce((sum, { count: calls }) => sum + calls, 0);\n' +
    '  return Math.max(row.waiters.length + row.moreWaiters, here);\n' +
    '}\n' +
    '\n' +
    '/** The holder in one line, for the view with one line for each lock. */\n' +
    'function lineOf(row, times) {\n' +
    '  const [holder] = row.holders;\n' +
    '  const line = element(\'span\', \'line\');\n' +
    '  if (holder === undefined) return line;\n' +
    '  const age = element(\'span\', \'quiet\');\n' +
    '  const others = row.holders.length + row.moreHolders - 1;\n' +
    '  line.append(element(\'strong\', \'\', work(holder)), others > 0 ? ` and ${count(others, \'other\', \'others\')}` : \'\', \' on \', element(\'span\', \'where\', whereText(holder)), \' \', age);\n' +
    '  times.push((now, at) => {\n' +
    '    const { since, remainingMs = 0, graceMs = 0 } = now.holders[0] ?? {};\n' +
    '    age.textContent = remainingMs <= 0 && graceMs > 0 ? `lease ended, free in ${duration(graceMs)}` : since === undefined ? \'\' : `for ${duration(at - since)}`;\n' +
    '  });\n' +
    '  return line;\n' +
    '}\n' +
    '\n' +
    '/** Opens the details of one lock in the view with one line for each. */\n' +
    'function moreButton(row, isOpen) {\n' +
    '  const button = element(\'button\', \'more\', \'Details\');\n' +
    '  button.type = \'button\';\n' +
    '  button.dataset.button = row.key;\n' +
    '  button.setAttribute(\'aria-label\', `Details of ${row.role ?? row.key}`);\n' +
    '  button.setAttribute(\'aria-expanded\', String(isOpen));\n' +
    '  button.addEventListener(\'click\', () => {\n' +
    '    const opened = button.closest(\'.lock\').classList.toggle(\'open\');\n' +
    '    button.setAttribute(\'aria-expanded\', String(opened));\n' +
    '  });\n' +
    '  return button;\n' +
    '}\n' +
    '\n' +
    '/** How many wait: processes, or calls of this one if the store knows of none. */\n' +
    'function waitText(row) {\n' +
    '  const places = row.waiters.length + row.moreWaiters;\n' +
    '  if (row.role !== undefined) return `${count(waiting(row), \'stands\', \'stand\')} for election`;\n' +
    '  return places > 0 ? count(places, \'process waits\', \'processes wait\') : count(waiting(row), \'call of this process waits\', \'calls of this process wait\');\n' +
    '}\n' +
    '\n' +
    '/** For what they wait, as the end of the sentence. */\n' +
    'function forText(row) {\n' +
    '  const [holder] = row.holders;\n' +
    '  if (row.role !== undefined) return \'\';\n' +
    '  if (holder === undefined) return \'; the lock is about to be granted\';\n' +
    '  const others = row.holders.length + row.moreHolders - 1;\n' +
    '  return ` for ${work(holder)}${others > 0 ? ` and ${count(others, \'other holder\', \'other holders\')}` : \'\'} to end`;\n' +
    '}\n' +
    '\n' +
    'function waiters(row, times) {\n' +
    '  const isRole = row.role !== undefined;\n' +
    '  const section = element(\'section\', \'waiters\', element(\'h4\', \'\', isRole ? \'Stands, in order of service\' : \'Waiting, in order of service\'));\n' +
    '  const list = element(\'ol\', \'\');\n' +
    '  row.waiters.forEach((waiter, n) => {\n' +
    '    const seen = element(\'span\', \'quiet\');\n' +
    '    list.append(element(\'li\', \'\', isRole ? \'\' : `${waiter.mode}: `, element(\'strong\', \'\', work(waiter)), \' on \', element(\'span\', \'where\', whereText(waiter)), seen));\n' +
    '    times.push((now) => (seen.textContent = `, for at least ${duration(now.waiters[n]?.seenForMs ?? 0)}`));\n' +
    '  });\n' +
    '  if (row.waiters.length > 0) section.append(list);\n' +
    '  if (row.moreWaiters > 0) section.append(element(\'p\', \'quiet\', `and ${row.moreWaiters} more`));\n' +
    '  if (row.callsHere.length > 0) section.append(callsHere(times));\n' +
    '  return section;\n' +
    '}\n' +
    '\n' +
    '/** The calls of the process that serves this page, and how long the first of them has waited. */\n' +
    'function callsHere(times) {\n' +
    '  const here = element(\'p\', \'here\');\n' +
    '  times.push((now) => {\n' +
    '    const told = now.callsHere.map((calls) => `${calls.count} × ${work(calls)} (${calls.mode}, for ${duration(calls.longestMs)})`);\n' +
    '    here.textContent = `Calls in the process that serves this page: ${told.join(\', \')}`;\n' +
    '  });\n' +
    '  return here;\n' +
    '}\n',
  'release-dialog.js':
    '/** The dialog that asks before a lock is taken away, and says how that ended. */\n' +
    'import { whereText, work } from \'./wording.js\';\n' +
    '\n' +
    'export class ReleaseDialog {\n' +
    '  constructor(base, say) {\n' +
    '    this.base = base;\n' +
    '    this.say = say;\n' +
    '    this.dialog = document.getElementById(\'release\');\n' +
    '    this.what = document.getElementById(\'release-what\');\n' +
    '    this.confirm = document.getElementById(\'release-confirm\');\n' +
    '    document.getElementById(\'release-cancel\').addEventListener(\'click\', () => this.dialog.close());\n' +
    '    this.confirm.addEventListener(\'click\', () => void this.release());\n' +
    '  }\n' +
    '\n' +
    '  ask(instance, row, holder) {\n' +
    '    this.subject = { instance, key: row.key, fence: String(holder.fence) };\n' +
    '    this.what.textContent = `${row.key} is held by ${work(holder)} on ${whereText(holder)}, fence ${holder.fence}.`;\n' +
    '    this.dialog.showModal();\n' +
    '    // The focus is on Cancel, so that Enter, pressed by mistake, does no harm.\n' +
    '    document.getElementById(\'release-cancel\').focus();\n' +
    '  }\n' +
    '\n' +
    '  async release() {\n' +
    '    const { key } = this.subject;\n' +
    '    this.confirm.disabled = true;\n' +
    '    try {\n' +
    '      const response = await fetch(`${this.base}force-release?${new URLSearchParams(this.subject)}`, {\n' +
    '        method: \'POST\',\n' +
    '        headers: { \'x-holdfast-board\': \'force-release\' },\n' +
    '      });\n' +
    '      const { released, message } = await response.json().catch(() => ({ message: `the server answered ${response.status}` }));\n' +
    '      if (!response.ok) this.say(`${key} was not taken away: ${message}`);\n' +
    '      else this.say(released ? `${key} was taken away; its holder is told.` : `That holder of ${key} was gone already; nothing was changed.`);\n' +
    '    } catch {\n' +
    '      this.say(`It is not known whether ${key} was taken away: the server does not answer.`);\n' +
    '    } finally {\n' +
    '      this.confirm.disabled = false;\n' +
    '      this.dialog.close();\n' +
    '    }\n' +
    '  }\n' +
    '}\n',
  'wording.js':
    '/** The wording of times, processes and methods on the page. */\n' +
    '\n' +
    '/** A length of time: 850 ms, 12 s, 3 min 5 s, 2 h 10 min. */\n' +
    'export function duration(ms) {\n' +
    '  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;\n' +
    '  const seconds = Math.floor(ms / 1000);\n' +
    '  if (seconds < 60) return `${seconds} s`;\n' +
    '  const minutes = Math.floor(seconds / 60);\n' +
    '  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;\n' +
    '  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;\n' +
    '}\n' +
    '\n' +
    'export function clockTime(ms) {\n' +
    '  return new Date(ms).toLocaleTimeString();\n' +
    '}\n' +
    '\n' +
    '/** The label of a holder or waiter. Calls of withLock and acquire have one only if they give it. */\n' +
    'export function work({ label }) {\n' +
    '  return label ?? \'unnamed work\';\n' +
    '}\n' +
    '\n' +
    'export function whereText({ host, pid, process }) {\n' +
    '  return host === undefined ? `process ${process}` : `${host}, pid ${pid}`;\n' +
    '}\n' +
    '\n' +
    'export function count(number, one, many) {\n' +
    '  return `${number} ${number === 1 ? one : many}`;\n' +
    '}\n' +
    '\n' +
    '/** Makes an element with a class, children and attributes. Text is never parsed as markup. */\n' +
    'export function element(name, className, ...children) {\n' +
    '  const made = document.createElement(name);\n' +
    '  if (className) made.className = className;\n' +
    '  made.append(...children);\n' +
    '  return made;\n' +
    '}\n',
};
