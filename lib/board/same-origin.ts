/**
 * Whether a request that changes something was sent by the board's own page: other sites may make a browser send requests
 * with the operator's credentials.
 */

/** Node's headers, in lower case. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A page of another origin cannot set it without being allowed to by a preflight. */
export const OWN_HEADER = 'x-holdfast-board';

/** Why the request is not ours; undefined when it is. */
export function foreignRequest(headers: RequestHeaders): string | undefined {
  if (headers[OWN_HEADER] === undefined) return `the header ${OWN_HEADER} is missing`;
  // Applications that allow every origin (CORS) answer preflights with yes, so the header alone proves too little.
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' ? undefined : `it was sent by another site (${String(site)})`;
  const { origin, host } = headers;
  if (origin === undefined) return undefined;
  return hostOf(String(origin)) === host ? undefined : `it was sent by ${String(origin)}`;
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
