/**
 * A plot as SVG text: for each answer its bars below each other, ours in colour. Readable on light and on dark pages.
 */
import { digits, type Answer, type Bars } from './answer.js';

const WIDTH = 860;
const NAMES = 250;
const LONGEST = 500;
const ROW = 20;
const HEAD = 46;
const GAP = 22;

export function plot(answers: readonly Answer[]): string {
  let top = 10;
  const charts: string[] = [];
  for (const { title, bars } of answers) {
    if (bars === undefined) continue;
    charts.push(chart(title, bars, top));
    top += HEAD + bars.values.length * ROW + GAP;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}" font-family="sans-serif" font-size="13" role="img">`,
    '<title>Benchmarks of Holdfast and its peers</title>',
    `<rect width="${WIDTH}" height="${top}" fill="#ffffff"/>`,
    ...charts,
    '</svg>',
    '',
  ].join('\n');
}

function chart(title: string, { unit, logarithmic, values }: Bars, top: number): string {
  const length = scale(values.map(({ value }) => value), logarithmic === true);
  const scaleNote = logarithmic ? ', logarithmic' : '';
  const rows = values.map(({ name, value, ours }, at) => {
    const y = top + HEAD + at * ROW;
    const width = length(value).toFixed(1);
    return (
      `<text x="${NAMES - 8}" y="${y + 13}" text-anchor="end" fill="#222"${ours ? ' font-weight="bold"' : ''}>${escaped(name)}</text>` +
      `<rect x="${NAMES}" y="${y + 2}" width="${width}" height="${ROW - 6}" fill="${ours ? '#c2410c' : '#94a3b8'}"/>` +
      `<text x="${(NAMES + Number(width) + 6).toFixed(1)}" y="${y + 13}" fill="#222">${digits(value)}</text>`
    );
  });
  return [
    `<text x="10" y="${top + 16}" font-size="15" font-weight="bold" fill="#111">${escaped(title)}</text>`,
    `<text x="10" y="${top + 34}" fill="#555">${escaped(unit + scaleNote)}</text>`,
    ...rows,
  ].join('\n');
}

/** From a value to the length of its bar; a logarithmic one begins below the smallest value, so that it can be seen. */
function scale(values: readonly number[], logarithmic: boolean): (value: number) => number {
  const most = Math.max(...values);
  if (!logarithmic) return (value) => (LONGEST * value) / most;
  const start = Math.log(Math.min(...values.filter((value) => value > 0)) / 2);
  return (value) => (value > 0 ? (LONGEST * (Math.log(value) - start)) / (Math.log(most) - start) : 0);
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}
