/**
 * Names that callers give, such as an owner or a label, as fields of records and requests.
 */
const PLAIN = /^(?!-$)[!-$&-~]+$/;

/** Writes a text as one field: without spaces, and `-` for no text. */
export function toField(text: string | undefined): string {
  if (text === undefined || text === '') return '-';
  if (PLAIN.test(text)) return text;
  return text === '-' ? '%2D' : encodeURIComponent(text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`));
}

/** Reads what {@link toField} wrote. */
export function fromField(field: string | number | undefined): string | undefined {
  return field === '-' || field === undefined ? undefined : decodeURIComponent(String(field));
}
