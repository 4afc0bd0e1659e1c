/** A burst of buyers: all of them order at once, spread over the instances of the shop. */
import { instanceFor, request } from './request.js';

export interface BurstResult {
  readonly sold: number;
  readonly soldOut: number;
  /** Neither sold nor sold out: these should not be. */
  readonly failed: number;
  /** How long each buyer waited for an answer, in ms, shortest first. */
  readonly waitedMs: readonly number[];
}

/** Sends `buyers` orders to `path` at once. */
export async function burst(urls: readonly string[], path: string, buyers: number): Promise<BurstResult> {
  const orders = Array.from({ length: buyers }, (_, n) => request('POST', instanceFor(urls, n) + path));
  const answers = await Promise.all(orders);
  const sold = answers.filter((answer) => answer.status === 201).length;
  const soldOut = answers.filter((answer) => answer.status === 410).length;
  const waitedMs = answers.map((answer) => answer.waitedMs).sort((a, b) => a - b);
  return { sold, soldOut, failed: buyers - sold - soldOut, waitedMs };
}

/** The time within which this share of the buyers had their answer, in ms. */
export function percentile(sortedMs: readonly number[], share: number): number {
  return sortedMs[Math.ceil(sortedMs.length * share) - 1] ?? 0;
}
