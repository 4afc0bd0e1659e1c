/** Small bar charts of the last minutes, with a description in words for screen readers. */
import { element } from './wording.js';

const SVG = 'http://www.w3.org/2000/svg';
const HEIGHT = 40;
const BAR = 4;

/** One chart. The series, of the form [{ name, className, counts }], are stacked with the first at the bottom. */
export function chart(title, series, sliceMs) {
  const slices = series[0].counts.length;
  const sums = series[0].counts.map((_, n) => series.reduce((sum, { counts }) => sum + counts[n], 0));
  const most = Math.max(1, ...sums);
  const svg = shape('svg', { class: 'chart', viewBox: `0 0 ${slices * BAR} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' });
  const minutes = Math.round((slices * sliceMs) / 60_000);
  const told = series.map(({ name, counts }) => `${counts.reduce((sum, one) => sum + one, 0)} ${name}`).join(', ');
  svg.setAttribute('aria-label', `${title} in the last ${minutes} minutes: ${told}`);
  svg.append(shape('line', { class: 'ground', x1: 0, x2: slices * BAR, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
  for (let n = 0; n < slices; n += 1) {
    let top = HEIGHT;
    for (const { className, counts } of series) {
      if (counts[n] === 0) continue;
      const height = Math.max(1.5, (counts[n] / most) * (HEIGHT - 2));
      top -= height;
      svg.append(shape('rect', { class: className, x: n * BAR, y: top, width: BAR - 1, height }));
    }
  }
  return element('figure', '', element('figcaption', '', `${title}, last ${minutes} min: `, element('strong', '', told)), svg);
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}
