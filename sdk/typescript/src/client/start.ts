// What every way to start a run has in common, and the server's words for it.
import { definitionOf } from "../brand.js";
import { dayMs, duration, durationText } from "../duration.js";
import type { DurationInput } from "../duration.js";
import { retry } from "../retry.js";
import type { RetryOptions } from "../retry.js";
import { parse } from "../schema.js";
import type { QueueDefinition } from "../queue.js";
import type { Task, TaskDefinition } from "../task.js";
import type { RequestOptions } from "./transport.js";

export interface StartOptions extends RequestOptions {
  /** Declared name to stored secret: "vault:NAME". */
  secrets?: Record<string, string>;
  queue?: QueueDefinition | string;
  concurrencyKey?: string;
  /** Seconds by which the run is treated as older. */
  priority?: number;
  ttl?: DurationInput;
  maxDuration?: DurationInput;
  /** In place of the task's. */
  retry?: RetryOptions;
  metadata?: Record<string, unknown>;
  tags?: string[];
}

export const length = (field: string, value: DurationInput | undefined): string | undefined =>
  value === undefined ? undefined : durationText(duration(field, value, 1, 365 * dayMs));

function retryWords(given: RetryOptions): object {
  const { enabled, maxAttempts, backoff } = retry("retry", given);
  if (backoff === undefined) return { enabled };
  const { minMs, maxMs, factor, jitter } = backoff;
  return {
    enabled,
    max_attempts: maxAttempts,
    backoff: { min_ms: minMs, max_ms: maxMs, factor, jitter },
  };
}

/** Undefined members are not sent. */
export function startWords(o: StartOptions): Record<string, unknown> {
  const queue = typeof o.queue === "string" ? o.queue : o.queue?.name;
  return {
    queue: queue === undefined ? undefined : { name: queue },
    concurrency_key: o.concurrencyKey,
    priority: o.priority,
    ttl: length("ttl", o.ttl),
    max_duration_seconds:
      o.maxDuration === undefined
        ? undefined
        : Math.ceil(duration("maxDuration", o.maxDuration, 5000, dayMs) / 1000),
    retry: o.retry === undefined ? undefined : retryWords(o.retry),
    metadata: o.metadata,
    tags: o.tags,
  };
}

/** The task's id, once its own schema, if this program has it, has let the payload pass. */
export async function admitted(task: Task | string, payload: unknown): Promise<string> {
  const taskId = typeof task === "string" ? task : task.id;
  const schema = definitionOf<TaskDefinition>(task, "Task")?.payload;
  /* The schema's output may not be JSON, so the input is what is sent. */
  if (schema) await parse(`the payload of ${taskId}`, schema, payload === undefined ? {} : payload);
  return taskId;
}
