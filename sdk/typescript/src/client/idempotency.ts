// Keys that make a request happen once, however often it is sent.
import { integer, list, refuse, text } from "../check.js";
import { runtimeIdentity } from "../runtime.js";

/** How far a key reaches: everybody's, one run's, or one attempt's of a run. */
export type IdempotencyScope = "global" | "run" | "attempt";

export interface IdempotencyKey {
  /** What the server compares. */
  readonly value: string;
  /** What it was made from. */
  readonly key: string | readonly string[];
  readonly scope: IdempotencyScope;
}

export interface IdempotencyKeyOptions {
  /** "run" unless given. */
  scope?: IdempotencyScope;
  /** Known inside a run; needed elsewhere for the scopes "run" and "attempt". */
  runId?: string;
  attemptNumber?: number;
}

const scopes: readonly unknown[] = ["global", "run", "attempt"];

function parts(key: string | readonly string[]): string[] {
  if (typeof key === "string") return [text("key", key)];
  const all = list("key", key).map((part, i) => text(`key[${i}]`, part));
  if (all.length === 0) refuse("key", "must not be empty");
  return all;
}

/* In this order of members: every copy of the package must make the same key of the same things. */
function identified(
  scope: IdempotencyScope,
  key: string[],
  options: IdempotencyKeyOptions,
): Record<string, unknown> {
  if (scope === "global") return { scope, key };
  const inside = runtimeIdentity();
  const runId = options.runId ?? inside?.runId;
  if (runId === undefined)
    refuse("runId", `is needed outside a run for a key of the scope "${scope}"`);
  if (scope === "run") return { scope, key, runId: text("runId", runId) };
  const attemptNumber = options.attemptNumber ?? inside?.attemptNumber;
  if (attemptNumber === undefined)
    refuse("attemptNumber", 'is needed outside a run for a key of the scope "attempt"');
  integer("attemptNumber", attemptNumber, 1, Number.MAX_SAFE_INTEGER);
  return { scope, key, runId: text("runId", runId), attemptNumber };
}

async function hexSha256(of: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(of));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function create(
  key: string | readonly string[],
  options: IdempotencyKeyOptions = {},
): Promise<IdempotencyKey> {
  const { scope = "run" } = options;
  if (!scopes.includes(scope)) refuse("scope", `must be one of ${scopes.join(", ")}`);
  const value = await hexSha256(JSON.stringify(identified(scope, parts(key), options)));
  return Object.freeze({ value, key: typeof key === "string" ? key : Object.freeze([...key]), scope });
}

export const idempotencyKeys = Object.freeze({ create });

/** A key in the server's words; plain text is sent as it is. */
export function idempotencyWords(key: string | IdempotencyKey | undefined): {
  idempotency_key?: string;
  idempotency_key_options?: object;
} {
  if (key === undefined) return {};
  if (typeof key === "string") return { idempotency_key: text("idempotencyKey", key) };
  const { value, key: origin, scope } = key;
  return {
    idempotency_key: text("idempotencyKey.value", value),
    idempotency_key_options: { key: origin, scope },
  };
}
