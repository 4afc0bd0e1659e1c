/** What a node of a Cluster answers to a command for a slot that another node has. */
interface Redirection {
  /** ASK: the slot is still being moved there. MOVED: it is there for good. */
  readonly kind: 'ASK' | 'MOVED';
  /** As the node wrote it: `host:port`, and only `:port` from a node that does not know its own host. */
  readonly address: string;
}

/** The redirection in the words of an error; undefined when it is none. */
export function redirectionOf(words: string): Redirection | undefined {
  const [, kind, address] = /^(ASK|MOVED) \d+ (\S+)$/.exec(words) ?? [];
  return address === undefined ? undefined : { kind: kind as Redirection['kind'], address };
}
