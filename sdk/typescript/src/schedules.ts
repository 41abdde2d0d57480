// Tasks that run by the clock, and the schedules of the default client beside them.
import { record, refuse, text } from "./check.js";
import { schedules as client } from "./client/client.js";
import type { Schedules } from "./client/schedules.js";
import type { TaskContext } from "./context.js";
import { cronPattern, timezone } from "./cron.js";
import { name } from "./names.js";
import { schedulePayload } from "./schedule_payload.js";
import type { SchedulePayload } from "./schedule_payload.js";
import { makeTask } from "./task.js";
import type { ScheduleDefinition, Task, TaskBase } from "./task.js";

export interface ScheduleTaskConfig<R> extends TaskBase {
  /** Without it the task waits for schedules that are made by the API. */
  cron?: string | { pattern: string; timezone?: string };
  /** Declared name to stored secret, for the runs that `cron` starts. */
  secretBindings?: Record<string, `vault:${string}`>;
  run: (payload: SchedulePayload, ctx: TaskContext) => R;
}

/** The default client's, with `task` to declare them in source. */
export interface ScheduleFacade extends Pick<
  Schedules,
  | "create"
  | "update"
  | "retrieve"
  | "list"
  | "listPage"
  | "activate"
  | "deactivate"
  | "delete"
> {
  task<R>(config: ScheduleTaskConfig<R>): Task<SchedulePayload, Awaited<R>>;
}

function bindings(field: string, value: unknown): Record<string, string> {
  const given = Object.entries(record(field, value));
  return Object.fromEntries(
    given.map(([secret, source]) => {
      const stored = /^vault:(.*)$/s.exec(text(`${field}.${secret}`, source))?.[1];
      if (stored === undefined) refuse(`${field}.${secret}`, 'must be "vault:" and a stored name');
      return [name(field, secret, "secret"), `vault:${name(field, stored, "secret")}`];
    }),
  );
}

function scheduleOf(id: string, cron: unknown, bound: unknown): ScheduleDefinition[] {
  const field = `task ${id}: cron`;
  if (cron === undefined) {
    if (bound !== undefined) refuse(`task ${id}: secretBindings`, "needs a cron");
    return [];
  }
  const given =
    typeof cron === "string" ? { pattern: cron } : record(field, cron, ["pattern", "timezone"]);
  return [
    {
      cron: cronPattern(field, given.pattern),
      timezone: timezone(`${field}.timezone`, given.timezone ?? "UTC"),
      secretBindings:
        bound === undefined ? undefined : bindings(`task ${id}: secretBindings`, bound),
    },
  ];
}

function task<R>(config: ScheduleTaskConfig<R>): Task<SchedulePayload, Awaited<R>> {
  const { cron, secretBindings, ...rest } = record("schedules.task", config);
  if ("payload" in rest) refuse("schedules.task.payload", "is the schedule's own");
  const id = name("task id", rest.id, "id");
  const made = makeTask(
    "schedules.task",
    { ...rest, payload: schedulePayload },
    scheduleOf(id, cron, secretBindings),
  );
  return made as Task<SchedulePayload, Awaited<R>>;
}

export const schedules: ScheduleFacade = Object.freeze({
  task,
  create: client.create.bind(client),
  update: client.update.bind(client),
  retrieve: client.retrieve.bind(client),
  list: client.list.bind(client),
  listPage: client.listPage.bind(client),
  activate: client.activate.bind(client),
  deactivate: client.deactivate.bind(client),
  delete: client.delete.bind(client),
});
