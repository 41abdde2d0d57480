// A schema is code of some library. What can be seen of it from outside is described and hashed, so
// that people notice when the schema of a stream has changed; nothing else follows from it.
import { createHash } from "node:crypto";
import type { StandardSchemaV1 } from "../sdk.ts";

const mostParts = 10_000;

/** Own members in order; each object once, so that circles end. */
function* parts(value: unknown, seen: Set<object>): Generator<string> {
  if (typeof value === "function" || value instanceof RegExp) {
    yield String(value);
    if (typeof value !== "function") return;
  }
  if (value === null || (typeof value !== "object" && typeof value !== "function")) {
    yield `${typeof value} ${String(value)}`;
    return;
  }
  if (seen.has(value)) return;
  seen.add(value);
  for (const [key, { value: member }] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    yield `${key}:`;
    yield* parts(member, seen);
  }
}

export function schemaFingerprint(schema: StandardSchemaV1): string {
  const hash = createHash("sha256").update(schema["~standard"].vendor ?? "");
  let n = 0;
  for (const part of parts(schema, new Set())) {
    if (n++ === mostParts) break;
    hash.update(`\0${part}`);
  }
  return `sha256:${hash.digest("hex")}`;
}
