/** The holds of a fault run as its processes recorded them, and how late everything was on this machine. */
import type { Lag, ProcessReport, StayRecord } from './stay-record.js';

export type Held = StayRecord & { readonly grantedAt: number };

export function isHeld(stay: StayRecord): stay is Held {
  return stay.grantedAt !== undefined;
}

export function byKey(stays: readonly StayRecord[]): Map<string, Held[]> {
  const found = new Map<string, Held[]>();
  for (const stay of stays.filter(isHeld)) {
    for (const key of stay.keys) found.set(key, [...(found.get(key) ?? []), stay]);
  }
  for (const each of found.values()) each.sort((one, other) => one.grantedAt - other.grantedAt);
  return found;
}

/** Until when the holder worked on, believing in its lease. */
export function sureUntil(stay: Held): number {
  const until = stay.caution === 'asks' ? (stay.sureAt ?? stay.grantedAt) : Math.min(stay.abortedAt ?? Infinity, stay.sureAt ?? stay.grantedAt);
  return Math.min(until, stay.releasedAt ?? Infinity);
}

export function name(stay: StayRecord): string {
  return `${stay.process}#${stay.caller} ${stay.mode} '${stay.keys.join()}' asked at ${stay.askedAt.toFixed(0)}, granted at ${stay.grantedAt?.toFixed(0)}`;
}

/** When the holder learned that its lease was gone, if it did. */
export function lostAt({ abortedAt, threwAt, outcome, releasedAt }: StayRecord): number | undefined {
  return abortedAt ?? threwAt ?? (outcome === 'lost' ? releasedAt : undefined);
}

/** When turns of an event loop came late: of each process, and of the test itself, through which all proxies go. */
export class Lateness {
  private readonly ofProcess: ReadonlyMap<string | undefined, readonly Lag[]>;

  constructor(reports: readonly ProcessReport[], private readonly ofTest: readonly Lag[]) {
    this.ofProcess = new Map(reports.map(({ stays, lags }) => [stays[0]?.process, lags]));
  }

  /** The longest of a process's own, in ms. */
  own(process: string, from: number, to: number): number {
    return longestWithin(this.ofProcess.get(process) ?? [], from, to);
  }

  /** The longest that a call of this process may have met, its own or the network's. */
  met(process: string, from: number, to: number): number {
    return Math.max(this.own(process, from, to), longestWithin(this.ofTest, from, to));
  }

  /** How much of this time a process was not let run, in many turns or in one, in ms. */
  inAll(process: string, from: number, to: number): number {
    const shares = (this.ofProcess.get(process) ?? []).map(([at, ms]) => Math.max(0, Math.min(at, to) - Math.max(at - ms, from)));
    return shares.reduce((sum, ms) => sum + ms, 0);
  }

  /** The longest of all that are shorter than this: a process that the fault itself stopped is not starved. */
  longest(belowMs = Infinity): number {
    const all = [...this.ofProcess.values(), this.ofTest].flat();
    return Math.max(0, ...all.map(([, ms]) => ms).filter((ms) => ms < belowMs));
  }
}

function longestWithin(lags: readonly Lag[], from: number, to: number): number {
  return Math.max(0, ...lags.filter(([at, ms]) => at >= from && at - ms <= to).map(([, ms]) => ms));
}
