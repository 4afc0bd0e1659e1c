/** What a store tells operators about itself. */

/** What a store is, as it says once it is open. The lock module logs it in the one line with which an application starts. */
export interface StoreSummary {
  /** Which store, and on which servers: `one Redis (127.0.0.1:6379)`. */
  readonly place: string;
  /** The prefix of its Redis keys. */
  readonly prefix: string;
  /** What would guard the locks and is switched off, each as a noun, with the reason in brackets. */
  readonly off: readonly string[];
  /** What the store may not ask its server, as the end of a sentence; undefined when it knows all. */
  readonly unknown?: string | undefined;
}

/** The times in which a store grants nothing new, because it may have forgotten who holds what (recoveryMs). */
export interface StoreRecovery {
  /** How many such times this process has heard of since it started. */
  readonly recoveries: number;
  /** How long the present one still lasts, in ms; 0 when there is none. */
  readonly recoversForMs: number;
}
