// Text that fits a field of a message.

const marker = "…[truncated]";

/** At most `limit` bytes of UTF-8, cut between characters, without NUL. */
export function fit(text: string, limit: number): string {
  const clean = text.includes("\0") ? text.replaceAll("\0", "\ufffd") : text;
  if (clean.length * 3 <= limit || Buffer.byteLength(clean) <= limit) return clean;
  const bytes = Buffer.from(clean);
  let end = limit - Buffer.byteLength(marker);
  /* Not into the middle of a character: its later bytes begin with the bits 10. */
  while (((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + marker;
}
