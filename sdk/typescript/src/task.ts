import { brand, definitionOf } from "./brand.js";
import { record, refuse } from "./check.js";
import { tasks } from "./client/client.js";
import type { RunHandle, TriggerOptions } from "./client/tasks.js";
import type { TaskContext } from "./context.js";
import { dayMs, duration, durationText } from "./duration.js";
import type { DurationInput } from "./duration.js";
import { name } from "./names.js";
import { queueDefinition } from "./queue.js";
import type { QueueDefinition } from "./queue.js";
import { retry } from "./retry.js";
import type { RetryOptions, RetryPolicy } from "./retry.js";
import { sandboxDefinition } from "./sandbox.js";
import type { SandboxBuilder, SandboxDefinition } from "./sandbox.js";
import { schema } from "./schema.js";
import type { StandardSchemaV1 } from "./schema.js";
import { secrets } from "./secret.js";
import type { Placement, SecretDefinition } from "./secret.js";

declare const types: unique symbol;

export interface Task<P = unknown, R = unknown> {
  readonly id: string;
  trigger(payload?: P, options?: TriggerOptions): Promise<RunHandle<R>>;
  /** Only there for the type system. */
  readonly [types]?: { payload: P; output: R };
}

export type TaskPayload<T> = T extends Task<infer P, infer _R> ? P : never;
export type TaskOutput<T> = T extends Task<infer _P, infer R> ? R : never;
export type TaskTriggerPayload<T> = TaskPayload<T>;
export type SessionStartPayload<T> = TaskPayload<T>;

export interface TaskBase {
  id: string;
  sandbox: SandboxBuilder;
  /** Active time: 5 s to 24 h, 900 s unless given. */
  maxDuration?: DurationInput;
  secrets?: Record<string, Placement>;
  queue?: QueueDefinition | string;
  ttl?: DurationInput;
  retry?: RetryOptions;
}

/** When the platform starts the task by itself. */
export interface ScheduleDefinition {
  readonly cron: string;
  readonly timezone: string;
  readonly secretBindings: Readonly<Record<string, string>> | undefined;
}

/** What the brand of a task holds, for the adapter. */
export interface TaskDefinition {
  readonly id: string;
  readonly sandbox: SandboxDefinition;
  readonly maxDurationSeconds: number;
  readonly payload: StandardSchemaV1 | undefined;
  readonly secrets: readonly SecretDefinition[];
  /** As declared; without one the queue is the task's own. */
  readonly queue: string | undefined;
  readonly ttl: string | undefined;
  readonly retry: RetryPolicy | undefined;
  readonly acceptsPayload: boolean;
  /** One at most. */
  readonly schedules: readonly ScheduleDefinition[];
  readonly run: (...args: unknown[]) => unknown;
}

const keys = ["id", "sandbox", "maxDuration", "payload", "secrets", "queue", "ttl", "retry", "run"];

export const taskDefinition = (value: unknown): TaskDefinition | undefined =>
  definitionOf<TaskDefinition>(value, "Task");

function sandboxOf(id: string, value: unknown): SandboxDefinition {
  if (value === undefined)
    refuse(`task ${id}: sandbox`, "is missing: every task needs a sandbox()");
  const definition =
    sandboxDefinition(value) ?? refuse(`task ${id}: sandbox`, "must be made by sandbox()");
  if (definition.image === undefined)
    refuse(`task ${id}: sandbox ${definition.id}`, "has no image: give it one with .image()");
  return definition;
}

function queueOf(field: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  return queueDefinition(value)?.name ?? name(field, value, "queue");
}

function define(
  what: string,
  config: unknown,
  schedules: readonly ScheduleDefinition[],
): TaskDefinition {
  const given = record(what, config, keys);
  const id = name("task id", given.id, "id");
  const field = (member: string): string => `task ${id}: ${member}`;
  const { run } = given;
  if (typeof run !== "function") refuse(field("run"), "must be a function");
  const sandbox = sandboxOf(id, given.sandbox);
  const payload = given.payload === undefined ? undefined : schema(field("payload"), given.payload);
  const maxDurationMs = duration(field("maxDuration"), given.maxDuration ?? 900, 5000, dayMs);
  const ttlMs =
    given.ttl === undefined ? undefined : duration(field("ttl"), given.ttl, 1, 365 * dayMs);
  return Object.freeze({
    id,
    sandbox,
    maxDurationSeconds: Math.ceil(maxDurationMs / 1000),
    payload,
    secrets: secrets(given.secrets ?? {}, sandbox.mountPath),
    queue: queueOf(field("queue"), given.queue),
    ttl: ttlMs === undefined ? undefined : durationText(ttlMs),
    retry: given.retry === undefined ? undefined : retry(field("retry"), given.retry),
    acceptsPayload: payload !== undefined || run.length >= 2,
    schedules,
    run: run as TaskDefinition["run"],
  });
}

export function task<I, O, R>(
  config: TaskBase & { payload: StandardSchemaV1<I, O>; run: (payload: O, ctx: TaskContext) => R },
): Task<I, Awaited<R>>;
export function task<R, P = TaskContext>(
  config: TaskBase & { payload?: undefined; run: (payload: P, ctx: TaskContext) => R },
): Task<[P] extends [TaskContext] ? undefined : P, Awaited<R>>;
export function task(config: unknown): Task {
  return makeTask("task", config, []);
}

/** `what` is the call that messages are about. */
export function makeTask(
  what: string,
  config: unknown,
  schedules: readonly ScheduleDefinition[],
): Task {
  const definition = define(what, config, schedules);
  const made: Task = {
    id: definition.id,
    trigger: (payload, options) => tasks.trigger(made, payload, options),
  };
  return Object.freeze(brand(made, "Task", definition));
}
