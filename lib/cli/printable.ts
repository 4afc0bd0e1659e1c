/** The text without characters that could steer the terminal: anybody who may write to Redis can put them into keys, labels and owners. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}
