import type { DurationInput } from "../duration.js";
import type { Task } from "../task.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import type { OutputOf } from "./run.js";
import { admitted, length, startWords } from "./start.js";
import type { StartOptions } from "./start.js";
import { requestOf } from "./transport.js";
import type { RequestOptions, Transport } from "./transport.js";

export interface TriggerOptions extends StartOptions {
  deploymentId?: string;
  idempotencyKey?: string | IdempotencyKey;
  idempotencyKeyTTL?: DurationInput;
}

/** A run that was started; its output's type is that of its task. */
export interface RunHandle<O = unknown> extends OutputOf<O> {
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
  /** JSON Schema of the payload: of a task that was retrieved, when its schema's library can tell. */
  readonly payloadSchema: Record<string, unknown> | undefined;
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
    payloadSchema: task.payload_schema,
    preload: task.preload,
    preloadReason: task.preload_reason,
  };
}

export class Tasks {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async trigger<P, R = unknown>(
    task: Task<P, R> | string,
    payload?: P,
    options: TriggerOptions = {},
  ): Promise<RunHandle<R>> {
    const taskId = await admitted(task as Task | string, payload);
    const run = await this.#transport().json<Record<string, string>>("POST", "/runs", {
      ...requestOf(options),
      body: {
        task_id: taskId,
        payload,
        secrets: options.secrets,
        options: {
          deployment_id: options.deploymentId,
          ...startWords(options),
          ...idempotencyWords(options.idempotencyKey),
          idempotency_key_ttl: length("idempotencyKeyTTL", options.idempotencyKeyTTL),
        },
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
