import { definitionOf } from "../brand.js";
import { dayMs, duration, durationText } from "../duration.js";
import type { DurationInput } from "../duration.js";
import { retry } from "../retry.js";
import type { RetryOptions } from "../retry.js";
import { parse } from "../schema.js";
import type { QueueDefinition } from "../queue.js";
import type { Task, TaskDefinition } from "../task.js";
import type { RequestOptions, Transport } from "./transport.js";

export interface TriggerOptions extends RequestOptions {
  /** Declared name to stored secret: "vault:NAME". */
  secrets?: Record<string, string>;
  deploymentId?: string;
  queue?: QueueDefinition | string;
  concurrencyKey?: string;
  priority?: number;
  ttl?: DurationInput;
  maxDuration?: DurationInput;
  retry?: RetryOptions;
  idempotencyKey?: string;
  idempotencyKeyTTL?: DurationInput;
  metadata?: Record<string, unknown>;
  tags?: string[];
}

export interface RunHandle {
  readonly id: string;
  readonly taskId: string;
  readonly sessionId: string;
}

export interface DeployedTask {
  readonly id: string;
  readonly taskId: string;
  readonly deploymentId: string;
  readonly deploymentVersion: string;
  readonly filePath: string;
  readonly exportName: string;
  readonly sandboxId: string;
  readonly acceptsPayload: boolean;
  readonly maxDurationSeconds: number;
  readonly queue: string;
  /** Whether its runs may start where the module was imported ahead; else what stands against it. */
  readonly preload: boolean;
  readonly preloadReason: string | undefined;
}

type TaskRecord = Record<string, any>;

function deployedTask(task: TaskRecord): DeployedTask {
  return {
    id: task.id,
    taskId: task.task_id,
    deploymentId: task.deployment_id,
    deploymentVersion: task.deployment_version,
    filePath: task.file_path,
    exportName: task.export_name,
    sandboxId: task.sandbox_id,
    acceptsPayload: task.accepts_payload,
    maxDurationSeconds: task.max_duration_seconds,
    queue: task.queue,
    preload: task.preload,
    preloadReason: task.preload_reason,
  };
}

const length = (field: string, value: DurationInput | undefined): string | undefined =>
  value === undefined ? undefined : durationText(duration(field, value, 1, 365 * dayMs));

function retryObject(given: RetryOptions): object {
  const { enabled, maxAttempts, backoff } = retry("retry", given);
  if (backoff === undefined) return { enabled };
  const { minMs, maxMs, factor, jitter } = backoff;
  return {
    enabled,
    max_attempts: maxAttempts,
    backoff: { min_ms: minMs, max_ms: maxMs, factor, jitter },
  };
}

/* The server's word for each option; undefined members are not sent. */
function startOptions(o: TriggerOptions): Record<string, unknown> {
  const queue = typeof o.queue === "string" ? o.queue : o.queue?.name;
  return {
    deployment_id: o.deploymentId,
    queue: queue === undefined ? undefined : { name: queue },
    concurrency_key: o.concurrencyKey,
    priority: o.priority,
    ttl: length("ttl", o.ttl),
    max_duration_seconds:
      o.maxDuration === undefined
        ? undefined
        : Math.ceil(duration("maxDuration", o.maxDuration, 5000, dayMs) / 1000),
    retry: o.retry === undefined ? undefined : retryObject(o.retry),
    idempotency_key: o.idempotencyKey,
    idempotency_key_ttl: length("idempotencyKeyTTL", o.idempotencyKeyTTL),
    metadata: o.metadata,
    tags: o.tags,
  };
}

export class Tasks {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async trigger<P>(
    task: Task<P> | string,
    payload?: P,
    options: TriggerOptions = {},
  ): Promise<RunHandle> {
    const { signal, projectId, environmentId, secrets } = options;
    const taskId = typeof task === "string" ? task : task.id;
    const schema = definitionOf<TaskDefinition>(task, "Task")?.payload;
    /* The schema's output may not be JSON, so the input is what is sent. */
    if (schema)
      await parse(`the payload of ${taskId}`, schema, payload === undefined ? {} : payload);
    const run = await this.#transport().json<Record<string, string>>("POST", "/runs", {
      ...(signal && { signal }),
      ...(projectId !== undefined && { projectId }),
      ...(environmentId !== undefined && { environmentId }),
      body: {
        task_id: taskId,
        payload,
        secrets,
        options: startOptions(options),
      },
    });
    return {
      id: run.id as string,
      taskId: run.task_id as string,
      sessionId: run.session_id as string,
    };
  }

  async list(options: RequestOptions = {}): Promise<DeployedTask[]> {
    const { tasks } = await this.#transport().json<{ tasks: TaskRecord[] }>(
      "GET",
      "/tasks",
      options,
    );
    return tasks.map(deployedTask);
  }

  async retrieve(id: string, options: RequestOptions = {}): Promise<DeployedTask> {
    return deployedTask(
      await this.#transport().json<TaskRecord>("GET", `/tasks/${encodeURIComponent(id)}`, options),
    );
  }
}
