/** The wording of times, processes and methods on the page. */

/** A length of time: 850 ms, 12 s, 3 min 5 s, 2 h 10 min. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function clockTime(ms) {
  return new Date(ms).toLocaleTimeString();
}

/** The label of a holder or waiter. Calls of withLock and acquire have one only if they give it. */
export function work({ label }) {
  return label ?? 'unnamed work';
}

export function whereText({ host, pid, process }) {
  return host === undefined ? `process ${process}` : `${host}, pid ${pid}`;
}

export function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

/** Makes an element with a class, children and attributes. Text is never parsed as markup. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}
