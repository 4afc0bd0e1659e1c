/**
 * Decides whether a request that changes something was sent by the board's own page, because other sites can make a browser send
 * requests with the operator's credentials.
 */

/** The headers of a request as Node gives them, with names in lower case. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The header that the board's page sends. A page of another origin can only send it if the server allows that in a CORS preflight. */
const OWN_HEADER = 'x-holdfast-board';

/** Why the request does not come from the board's page, as the end of a sentence; undefined when it does. */
export function foreignRequest(headers: RequestHeaders): string | undefined {
  if (headers[OWN_HEADER] === undefined) return `the header ${OWN_HEADER} is missing`;
  // An application that allows every origin by CORS also allows the header in preflights, so the header alone proves too little.
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' ? undefined : `it was sent by another site (${String(site)})`;
  const { origin, host } = headers;
  if (origin === undefined) return undefined;
  return hostOf(String(origin)) === host ? undefined : `it was sent by ${String(origin)}`;
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
