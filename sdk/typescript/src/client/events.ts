import { AuthError, HelmrApiError } from "../errors.js";
import { sleep } from "./sleep.js";
import { frames } from "./sse.js";
import type { Frame } from "./sse.js";
import type { RequestOptions, Transport } from "./transport.js";
import type { WaitKind } from "./wait.js";

/** As the server has it. */
export interface EventRecord {
  readonly id: string;
  readonly cursor: string;
  readonly run_id: string;
  readonly kind: string;
  readonly at: string;
  readonly attributes: Record<string, unknown>;
}

interface EventBase {
  readonly run_id: string;
  readonly at: Date;
}

export type RunEvent = EventBase &
  (
    | {
        readonly type: "log";
        readonly stream: "stdout" | "stderr";
        readonly bytes: number;
        readonly observed_seq: number;
      }
    | {
        readonly type: `${WaitKind}_wait`;
        readonly wait_id: string;
        readonly kind: WaitKind;
        readonly params: Record<string, unknown>;
        readonly metadata: Record<string, unknown>;
        readonly tags: readonly string[];
        readonly timeout?: string;
      }
    | {
        readonly type: `${WaitKind}_wait_${"completed" | "timed_out" | "cancelled" | "failed"}`;
        readonly wait_id: string;
        readonly payload?: unknown;
      }
    | { readonly type: "task_result"; readonly exit_code: number }
    | {
        readonly type: "run_failed";
        readonly failure_kind: string;
        readonly layer: string;
        readonly detail?: string;
      }
    | { readonly type: "run_cancelled"; readonly reason?: string }
    | { readonly type: "run_expired"; readonly ttl?: string; readonly message?: string }
  );

type Attributes = Record<string, any>;

const dead = { layer: "guest_runtime", failure_kind: "dead_lettered" };

const settled =
  (how: string) =>
  (a: Attributes): Record<string, unknown> => ({
    type: `${a.kind}_wait_${how}`,
    wait_id: a.wait_id,
    ...(a.payload !== undefined && { payload: a.payload }),
  });

/* Kinds that are not here are left out of the typed API. */
const members: Record<string, (a: Attributes) => Record<string, unknown>> = {
  "log.stdout": (a) => ({
    type: "log",
    stream: "stdout",
    bytes: a.bytes,
    observed_seq: a.observed_seq,
  }),
  "log.stderr": (a) => ({
    type: "log",
    stream: "stderr",
    bytes: a.bytes,
    observed_seq: a.observed_seq,
  }),
  "run_wait.created": (a) => ({
    type: `${a.kind}_wait`,
    wait_id: a.wait_id,
    kind: a.kind,
    params: a.params,
    metadata: a.metadata,
    tags: a.tags,
    timeout: a.timeout,
  }),
  "run_wait.completed": settled("completed"),
  "run_wait.timed_out": settled("timed_out"),
  "run_wait.cancelled": settled("cancelled"),
  "run_wait.failed": settled("failed"),
  "run.completed": (a) => ({ type: "task_result", exit_code: a.exit_code }),
  "run.failed": (a) => ({
    type: "run_failed",
    failure_kind: a.failure_kind,
    layer: a.layer,
    detail: a.detail,
  }),
  "run.dead_lettered": (a) => ({ type: "run_failed", ...dead, detail: a.message }),
  "run.cancelled": (a) => ({ type: "run_cancelled", reason: a.reason }),
  "run.expired": (a) => ({ type: "run_expired", ttl: a.ttl, message: a.message }),
};

const terminal = new Set([
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.expired",
  "run.dead_lettered",
]);

export function runEvent(record: EventRecord): RunEvent | undefined {
  const more = members[record.kind]?.(record.attributes);
  return more && ({ run_id: record.run_id, at: new Date(record.at), ...more } as RunEvent);
}

const firstPauseMs = 100;
const longestPauseMs = 5000;
const maxFailures = 10;

/** Whether the same request may succeed later. */
function isPassing(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted || error instanceof AuthError || error instanceof MalformedFrameError)
    return false;
  return !(error instanceof HelmrApiError) || error.status >= 500 || error.status === 429;
}

class MalformedFrameError extends Error {}

/** Undefined for a frame that cannot be read but has an id to go on from. */
function recordOf(frame: Frame): EventRecord | undefined {
  try {
    const record = JSON.parse(frame.data) as EventRecord;
    if (typeof record.kind === "string") return record;
  } catch {
    /* Judged below, by its id. */
  }
  if (frame.id === undefined)
    throw new MalformedFrameError("the server sent an event that cannot be read");
  return undefined;
}

/** Every event after the cursor in order, across reconnections, until the terminal one. */
export async function* follow(
  transport: Transport,
  path: string,
  options: RequestOptions & { cursor?: string },
): AsyncGenerator<EventRecord> {
  let cursor = options.cursor;
  for (let failures = 0; ;) {
    try {
      const headers = {
        Accept: "text/event-stream",
        ...(cursor !== undefined && { "Last-Event-ID": cursor }),
      };
      const response = await transport.open("GET", path, { ...options, headers });
      for await (const frame of frames(response)) {
        failures = 0;
        const record = recordOf(frame);
        cursor = frame.id ?? cursor;
        if (record === undefined) continue;
        yield record;
        if (terminal.has(record.kind)) return;
      }
    } catch (error) {
      if (!isPassing(error, options.signal) || ++failures > maxFailures) throw error;
    }
    await sleep(Math.min(firstPauseMs * 2 ** failures, longestPauseMs), options.signal);
  }
}
