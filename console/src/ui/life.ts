// The life of a run as its events tell it: what it was doing when, its waits and its attempts.
import type { RunEvent } from "../api/types.ts";

export type Kind = "queued" | "starting" | "running" | "waiting" | "parked" | "resuming";
export interface Span {
  kind: Kind;
  from: number;
  to: number;
}

/* What a run is doing after an event of this kind. */
const next: Record<string, Kind | "over"> = {
  "run.created": "queued",
  "run.lease_assigned": "starting",
  "run.lease_started": "running",
  "run.waiting": "waiting",
  "run_wait.created": "waiting",
  "checkpoint.ready": "parked",
  "run.wait_resume_queued": "resuming",
  "run.resumed": "running",
  "run.dispatch_requeued": "queued",
  "run.retry_scheduled": "queued",
  "run.completed": "over",
  "run.failed": "over",
  "run.cancelled": "over",
  "run.expired": "over",
  "run.dead_lettered": "over",
};

export function spansOf(events: RunEvent[], now: number): Span[] {
  const spans: Span[] = [];
  let kind: Kind | "over" | undefined;
  let from = 0;
  const close = (to: number): void => {
    if (kind !== undefined && kind !== "over" && to >= from) spans.push({ kind, from, to });
  };
  for (const event of events) {
    let after = next[event.kind];
    /* A sandbox that is made ready again for a parked run is on its way back. */
    if (after === "starting" && (kind === "resuming" || kind === "parked")) after = "resuming";
    if (after === "running" && kind === "resuming" && event.kind === "run.lease_started")
      after = "resuming";
    if (after === undefined || after === kind) continue;
    const at = Date.parse(event.at);
    close(at);
    kind = after;
    from = at;
  }
  close(now);
  return spans;
}

export interface WaitSpan {
  id: string;
  words: string;
  from: number;
  to: number;
  parkedMs: number;
  isOpen: boolean;
}

const wordsOfKind: Record<string, string> = {
  timer: "a time",
  stream: "a message of the session",
  token: "an answer",
};

export function wordsOfWait(kind: unknown, metadata: unknown): string {
  const prompt = (metadata as { prompt?: unknown } | undefined)?.prompt;
  if (typeof prompt === "string" && prompt !== "") return prompt;
  return wordsOfKind[String(kind)] ?? String(kind);
}

/** Every wait from its beginning until it was settled, with the part of it that the run was parked. */
export function waitsOf(events: RunEvent[], spans: Span[], now: number): WaitSpan[] {
  const waits = new Map<string, WaitSpan>();
  for (const { kind, attributes, at } of events) {
    const id = String(attributes["wait_id"]);
    const wait = waits.get(id);
    if (kind === "run_wait.created")
      waits.set(id, {
        id,
        words: wordsOfWait(attributes["kind"], attributes["metadata"]),
        from: Date.parse(at),
        to: now,
        parkedMs: 0,
        isOpen: true,
      });
    else if (wait && kind.startsWith("run_wait.")) {
      wait.to = Date.parse(at);
      wait.isOpen = false;
    }
  }
  for (const wait of waits.values())
    for (const { kind, from, to } of spans)
      if (kind === "parked")
        wait.parkedMs += Math.max(0, Math.min(to, wait.to) - Math.max(from, wait.from));
  return [...waits.values()];
}

export interface Attempt {
  number: number;
  from: string;
  to?: string;
  /** "running" while it is, else what came of it. */
  outcome: string;
  /** Each time that a worker took it. */
  leases: { id: string; worker: string; engine: string; start: string; ms: number; outcome: string }[];
  retryAfterMs?: number;
}

const ends: Record<string, string> = {
  "run.completed": "succeeded",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
  "run.expired": "expired",
  "run.dead_lettered": "failed",
};

export function attemptsOf(events: RunEvent[]): Attempt[] {
  const attempts: Attempt[] = [];
  for (const { kind, attributes, attempt_number, at } of events) {
    const words = (name: string): string => String(attributes[name] ?? "");
    if (attempt_number && !attempts.some(({ number }) => number === attempt_number))
      attempts.push({ number: attempt_number, from: at, outcome: "running", leases: [] });
    const attempt = attempts.at(-1);
    if (!attempt) continue;
    const lease = attempt.leases.find(({ id }) => id === words("lease_id"));
    if (kind === "run.lease_started" && !lease)
      attempt.leases.push({
        id: words("lease_id"),
        worker: words("worker_id"),
        engine: `${words("engine")} · ${words("grade")}`,
        start: words("start"),
        ms: Number(attributes["start_ms"] ?? 0),
        outcome: "",
      });
    if (kind === "run.lease_released" && lease) lease.outcome = words("outcome");
    if (kind === "run.execution_lost" && lease) lease.outcome = "worker lost";
    if (kind === "run.retry_scheduled") {
      attempt.to = at;
      attempt.outcome = "failed";
      attempt.retryAfterMs = Number(attributes["delay_ms"] ?? 0);
    }
    const end = ends[kind];
    if (end) {
      attempt.to = at;
      attempt.outcome = end;
    }
  }
  return attempts;
}
