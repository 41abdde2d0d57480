import { follow } from "./sse.js";
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
    | {
        readonly type: "emit";
        readonly event_type: string;
        readonly content: readonly unknown[];
      }
    | {
        readonly type: "metadata_updated";
        readonly operation: "set" | "patch" | "increment";
        readonly key?: string;
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
  "run.metadata.updated": (a) => ({ type: "metadata_updated", operation: a.operation, key: a.key }),
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

const emitted = (a: Attributes): Record<string, unknown> => ({
  type: "emit",
  event_type: a.type,
  content: a.content,
});

export function runEvent(record: EventRecord): RunEvent | undefined {
  const shape = record.kind.startsWith("emit.") ? emitted : members[record.kind];
  const more = shape?.(record.attributes);
  return more && ({ run_id: record.run_id, at: new Date(record.at), ...more } as RunEvent);
}

/** Every event after the cursor in order, across reconnections, until the terminal one. */
export function followRun(
  transport: Transport,
  path: string,
  options: RequestOptions & { cursor?: string },
  isOver: () => Promise<boolean>,
): AsyncGenerator<EventRecord> {
  const { cursor: start, ...request } = options;
  return follow<EventRecord>({
    cursor: start,
    signal: request.signal,
    open: (cursor) =>
      transport.open("GET", path, {
        ...request,
        headers: {
          Accept: "text/event-stream",
          ...(cursor !== undefined && { "Last-Event-ID": cursor }),
        },
      }),
    isRecord: ({ kind }) => typeof kind === "string",
    isLast: ({ kind }) => terminal.has(kind),
    isOver,
  });
}
