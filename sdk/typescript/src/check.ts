// Checks on what an author wrote. Each throws a TypeError that names the field and the rule.

export function refuse(field: string, rule: string): never {
  throw new TypeError(`${field} ${rule}`);
}

export function text(field: string, value: unknown): string {
  if (typeof value !== "string") refuse(field, "must be a string");
  if (value === "") refuse(field, "must not be empty");
  if (value.includes("\0")) refuse(field, "must not contain NUL");
  return value;
}

/** How long the text is on the wire. */
export const byteLength = (value: string): number => new TextEncoder().encode(value).length;

export function list(field: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) refuse(field, "must be an array");
  return value;
}

export function integer(field: string, value: unknown, least: number, most: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
    refuse(field, `must be a whole number from ${least} to ${most}`);
  return value as number;
}

/** A plain object with no other keys than these; whether each is there is the caller's rule. */
export function record(
  field: string,
  value: unknown,
  keys?: readonly string[],
): Record<string, unknown> {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    refuse(field, "must be an object");
  const object = value as Record<string, unknown>;
  if (keys)
    for (const key of Object.keys(object))
      if (!keys.includes(key))
        refuse(`${field}.${key}`, `is unknown; known are ${keys.join(", ")}`);
  return object;
}
