import { integer, record, refuse } from "./check.js";

export interface Backoff {
  minMs?: number;
  maxMs?: number;
  factor?: number;
  jitter?: "none" | "full";
}

export type RetryOptions =
  { enabled?: true; maxAttempts?: number; backoff?: Backoff } | { enabled: false };

export interface RetryPolicy {
  readonly enabled: boolean;
  readonly maxAttempts?: number;
  readonly backoff?: Readonly<Backoff>;
}

const longestMs = 365 * 86_400_000;

function backoff(field: string, value: unknown): Backoff {
  const given = record(field, value, ["minMs", "maxMs", "factor", "jitter"]) as Backoff;
  const { minMs = 1000, maxMs = 30_000, factor = 2, jitter = "full" } = given;
  integer(`${field}.minMs`, minMs, 0, longestMs);
  integer(`${field}.maxMs`, maxMs, 0, longestMs);
  if (minMs > maxMs) refuse(`${field}.minMs`, `must not be over maxMs (${maxMs})`);
  if (typeof factor !== "number" || !(factor > 0 && factor < Infinity))
    refuse(`${field}.factor`, "must be over 0");
  if (jitter !== "none" && jitter !== "full") refuse(`${field}.jitter`, 'must be "none" or "full"');
  return { minMs, maxMs, factor, jitter };
}

/** With the defaults filled in, so that what is deployed says what will happen. */
export function retry(field: string, value: unknown): RetryPolicy {
  const given = record(field, value, ["enabled", "maxAttempts", "backoff"]);
  if (given.enabled === false) {
    if (Object.keys(given).length > 1)
      refuse(field, "must carry nothing else when enabled is false");
    return { enabled: false };
  }
  if (given.enabled !== undefined && given.enabled !== true)
    refuse(`${field}.enabled`, "must be true or false");
  return {
    enabled: true,
    maxAttempts: integer(`${field}.maxAttempts`, given.maxAttempts ?? 3, 1, 10),
    backoff: backoff(`${field}.backoff`, given.backoff ?? {}),
  };
}
