/** A name that somebody gave, such as an owner or a label, as one field of a record or a request: without spaces, and - for none. */
const PLAIN = /^(?!-$)[!-$&-~]+$/;

export function toField(text: string | undefined): string {
  if (text === undefined || text === '') return '-';
  if (PLAIN.test(text)) return text;
  return text === '-' ? '%2D' : encodeURIComponent(text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`));
}

export function fromField(field: string | number | undefined): string | undefined {
  return field === '-' || field === undefined ? undefined : decodeURIComponent(String(field));
}
