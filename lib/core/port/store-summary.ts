/** What a store says of itself once it is open. The lock module logs it in the one line with which an application starts. */
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
