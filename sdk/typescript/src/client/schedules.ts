import type { DurationInput } from "../duration.js";
import type { QueueDefinition } from "../queue.js";
import type { Task } from "../task.js";
import { date, given } from "./record.js";
import { startWords } from "./start.js";
import { requestOf } from "./transport.js";
import type { RequestOptions, Transport } from "./transport.js";

export type ScheduleStatus = "active" | "inactive" | "errored";

/** What each of its runs is started with. */
export interface ScheduleOptions {
  /** An id or a version; without it the deployment that is current at each time. */
  deploymentId?: string;
  queue?: QueueDefinition | string;
  concurrencyKey?: string;
  priority?: number;
  ttl?: DurationInput;
  maxDuration?: DurationInput;
}

export interface ScheduleUpdateOptions extends RequestOptions {
  task: Task<any, any> | string;
  cron: string;
  /** An IANA name; UTC unless given. */
  timezone?: string;
  externalId?: string;
  /** Without it a new schedule is active and a known one stays as it is. */
  status?: "active" | "inactive";
  secretBindings?: Record<string, string>;
  options?: ScheduleOptions;
}

export interface ScheduleCreateOptions extends ScheduleUpdateOptions {
  /** The same key again updates the same schedule. */
  deduplicationKey: string;
}

export interface ScheduleListOptions extends RequestOptions {
  limit?: number;
  cursor?: string;
}

export interface Schedule {
  readonly id: string;
  /** Declarative ones belong to the source of their task and are not edited here. */
  readonly type: "declarative" | "imperative";
  readonly deduplicationKey: string;
  readonly task: string;
  readonly cron: string;
  readonly timezone: string;
  readonly externalId?: string;
  readonly status: ScheduleStatus;
  readonly lastError?: string;
  readonly options: {
    readonly deploymentId?: string;
    readonly queue?: string;
    readonly concurrencyKey?: string;
    readonly priority?: number;
    readonly ttl?: DurationInput;
    readonly maxDuration?: number;
  };
  readonly secretBindings?: Readonly<Record<string, string>>;
  readonly nextFireAt?: Date;
  readonly lastFireAt?: Date;
  /** The next five times; not in lists. */
  readonly upcoming?: readonly Date[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface SchedulePage {
  readonly schedules: Schedule[];
  readonly nextCursor?: string;
}

export type ScheduleRef = string | { readonly id: string };

type ScheduleRecord = Record<string, any>;

function schedule(from: ScheduleRecord): Schedule {
  const options: ScheduleRecord = from.options ?? {};
  return {
    id: from.id,
    type: from.type,
    deduplicationKey: from.deduplication_key,
    task: from.task,
    cron: from.cron,
    timezone: from.timezone,
    status: from.status,
    options: given({
      deploymentId: options.deployment_id as string | undefined,
      queue: options.queue?.name as string | undefined,
      concurrencyKey: options.concurrency_key as string | undefined,
      priority: options.priority as number | undefined,
      ttl: options.ttl as DurationInput | undefined,
      maxDuration: options.max_duration_seconds as number | undefined,
    }),
    createdAt: new Date(from.created_at),
    updatedAt: new Date(from.updated_at),
    ...given({
      externalId: from.external_id as string | undefined,
      lastError: from.last_error as string | undefined,
      secretBindings: from.secret_bindings as Record<string, string> | undefined,
      nextFireAt: date(from.next_fire_at),
      lastFireAt: date(from.last_fire_at),
      upcoming: (from.upcoming as string[] | undefined)?.map((at) => new Date(at)),
    }),
  };
}

/** Undefined members are not sent. */
function words(o: ScheduleUpdateOptions): Record<string, unknown> {
  return {
    task: typeof o.task === "string" ? o.task : o.task.id,
    cron: o.cron,
    timezone: o.timezone,
    external_id: o.externalId,
    status: o.status,
    secret_bindings: o.secretBindings,
    options: o.options && { deployment_id: o.options.deploymentId, ...startWords(o.options) },
  };
}

const pathOf = (ref: ScheduleRef, verb = ""): string =>
  `/schedules/${encodeURIComponent(typeof ref === "string" ? ref : ref.id)}${verb}`;

export class Schedules {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async #ask(method: string, path: string, o: RequestOptions, body?: unknown): Promise<Schedule> {
    const call = { ...requestOf(o), ...(body !== undefined && { body }) };
    return schedule(await this.#transport().json<ScheduleRecord>(method, path, call));
  }

  create(options: ScheduleCreateOptions): Promise<Schedule> {
    const body = { deduplication_key: options.deduplicationKey, ...words(options) };
    return this.#ask("POST", "/schedules", options, body);
  }

  /** Replaces everything but the key. */
  update(ref: ScheduleRef, options: ScheduleUpdateOptions): Promise<Schedule> {
    return this.#ask("PUT", pathOf(ref), options, words(options));
  }

  retrieve(ref: ScheduleRef, options: RequestOptions = {}): Promise<Schedule> {
    return this.#ask("GET", pathOf(ref), options);
  }

  async list(options: ScheduleListOptions = {}): Promise<Schedule[]> {
    return (await this.listPage(options)).schedules;
  }

  async listPage(options: ScheduleListOptions = {}): Promise<SchedulePage> {
    const { limit, cursor, ...request } = options;
    const page = await this.#transport().json<{
      schedules: ScheduleRecord[];
      next_cursor?: string;
    }>("GET", "/schedules", { ...request, query: { limit, cursor } });
    return {
      schedules: page.schedules.map(schedule),
      ...(page.next_cursor && { nextCursor: page.next_cursor }),
    };
  }

  activate(ref: ScheduleRef, options: RequestOptions = {}): Promise<Schedule> {
    return this.#ask("POST", pathOf(ref, "/activate"), options);
  }

  deactivate(ref: ScheduleRef, options: RequestOptions = {}): Promise<Schedule> {
    return this.#ask("POST", pathOf(ref, "/deactivate"), options);
  }

  async delete(ref: ScheduleRef, options: RequestOptions = {}): Promise<void> {
    await this.#transport().open("DELETE", pathOf(ref), options);
  }
}
