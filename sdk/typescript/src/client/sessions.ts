import type { Task } from "../task.js";
import type { StreamRef } from "../stream_definition.js";
import { given } from "./record.js";
import { runSnapshot } from "./run.js";
import type { RunRecord, RunSnapshot } from "./run.js";
import { sessionAddress, sessionName, sessionSnapshot } from "./session.js";
import type {
  SessionAddress,
  SessionRecord,
  SessionRef,
  SessionSnapshot,
  SessionStatus,
} from "./session.js";
import { admitted, startWords } from "./start.js";
import type { StartOptions } from "./start.js";
import { InputStream, OutputStream } from "./streams.js";
import { requestOf } from "./transport.js";
import type { Call, RequestOptions, Transport } from "./transport.js";

export interface SessionStartOptions extends StartOptions {
  /** The caller's own name for it: starting it again gives the same session. */
  externalId?: string;
  /** Goes on in this workspace instead of an empty one. */
  workspaceId?: string;
  expiresAt?: Date | string;
}

export interface SessionStartAndWaitOptions extends SessionStartOptions {
  /** 30 unless given, 300 at most. */
  timeoutSeconds?: number;
}

export interface StartedSession<O = unknown> {
  readonly session: SessionSnapshot;
  readonly run: RunSnapshot<O>;
  /** It was there already, under the same external id. */
  readonly isCached: boolean;
}

export interface AwaitedSession<O = unknown> extends StartedSession<O> {
  /** The run was not over in time; it goes on. */
  readonly timedOut: boolean;
}

export interface SessionListOptions extends RequestOptions {
  /** Open ones unless given. */
  status?: SessionStatus | "all";
  taskId?: string;
  externalId?: string;
  limit?: number;
  cursor?: string;
}

export interface SessionPage {
  readonly sessions: SessionSnapshot[];
  readonly nextCursor?: string;
}

export interface SessionUpdateOptions extends RequestOptions {
  metadata?: Record<string, unknown>;
  tags?: string[];
  /** May be set or brought forward, never put off. */
  expiresAt?: Date | string;
}

export interface SessionEndOptions extends RequestOptions {
  reason?: string;
}

interface StartRecord {
  session: SessionRecord;
  run: RunRecord;
  is_cached: boolean;
  timed_out?: boolean;
}

interface RunPageRecord {
  runs: RunRecord[];
  next_cursor?: string | null;
}

const instant = (value: Date | string | undefined): string | undefined =>
  value === undefined ? undefined : new Date(value).toISOString();

function startedSession<O>(answer: StartRecord): StartedSession<O> {
  return {
    session: sessionSnapshot(answer.session),
    run: runSnapshot<O>(answer.run),
    isCached: answer.is_cached,
  };
}

/** One session by its id or external id; nothing is asked of the server until a method is called. */
export class SessionHandle {
  readonly id?: string | undefined;
  readonly externalId?: string | undefined;
  readonly #transport: () => Transport;
  readonly #address: SessionAddress;

  constructor(transport: () => Transport, session: SessionRef, scope: RequestOptions) {
    const { id, externalId } = sessionName(session);
    this.id = id;
    this.externalId = externalId;
    this.#transport = transport;
    this.#address = sessionAddress(session, scope);
  }

  async retrieve(options: RequestOptions = {}): Promise<SessionSnapshot> {
    return sessionSnapshot(await this.#ask<SessionRecord>("GET", "", options));
  }

  /** Refused while a run of it is not over. */
  async close(options: SessionEndOptions = {}): Promise<SessionSnapshot> {
    return this.#end("/close", options);
  }

  /** Its run, when one is not over, is cancelled, too. */
  async cancel(options: SessionEndOptions = {}): Promise<SessionSnapshot> {
    return this.#end("/cancel", options);
  }

  /** In the order they were made; all of them, however many pages that is. */
  async runs(options: RequestOptions = {}): Promise<RunSnapshot[]> {
    const all: RunSnapshot[] = [];
    for (let cursor: string | undefined; ;) {
      const query = cursor === undefined ? {} : { cursor };
      const page = await this.#ask<RunPageRecord>("GET", "/runs", { ...options, query });
      all.push(...page.runs.map((run) => runSnapshot(run)));
      if (!page.next_cursor) return all;
      cursor = page.next_cursor;
    }
  }

  input<T = unknown>(stream: StreamRef<"input", T>): InputStream<T> {
    return new InputStream<T>(this.#transport, this.#address, stream);
  }

  output<T = unknown>(stream: StreamRef<"output", T>): OutputStream<T> {
    return new OutputStream<T>(this.#transport, this.#address, stream);
  }

  async #end(path: string, options: SessionEndOptions): Promise<SessionSnapshot> {
    const { reason, ...request } = options;
    const call = { ...request, body: { reason } };
    return sessionSnapshot(await this.#ask<SessionRecord>("POST", path, call));
  }

  #ask<T>(method: string, path: string, call: Call): Promise<T> {
    return this.#transport().json<T>(method, this.#address.path + path, {
      ...this.#address.scope,
      ...call,
      query: { ...this.#address.query, ...call.query },
    });
  }
}

export class Sessions {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async start<P, R = unknown>(
    task: Task<P, R> | string,
    payload?: P,
    options: SessionStartOptions = {},
  ): Promise<StartedSession<R>> {
    return startedSession<R>(await this.#start("/sessions", task as Task, payload, options));
  }

  /** Ends when the run does, or in time. */
  async startAndWait<P, R = unknown>(
    task: Task<P, R> | string,
    payload?: P,
    options: SessionStartAndWaitOptions = {},
  ): Promise<AwaitedSession<R>> {
    const { timeoutSeconds } = options;
    const path = "/sessions/start-and-wait";
    const more = { timeout_seconds: timeoutSeconds };
    const answer = await this.#start(path, task as Task, payload, options, more);
    return { ...startedSession<R>(answer), timedOut: answer.timed_out ?? false };
  }

  /** A handle; whether there is such a session shows when it is used. */
  open(session: SessionRef, scope: RequestOptions = {}): SessionHandle {
    return new SessionHandle(this.#transport, session, requestOf(scope));
  }

  retrieve(session: SessionRef, options: RequestOptions = {}): Promise<SessionSnapshot> {
    return this.open(session).retrieve(options);
  }

  async list(options: SessionListOptions = {}): Promise<SessionSnapshot[]> {
    return (await this.listPage(options)).sessions;
  }

  async listPage(options: SessionListOptions = {}): Promise<SessionPage> {
    const { status, taskId, externalId, limit, cursor, ...request } = options;
    const query = { status, task_id: taskId, external_id: externalId, limit, cursor };
    const page = await this.#transport().json<{
      sessions: SessionRecord[];
      next_cursor?: string | null;
    }>("GET", "/sessions", { ...request, query });
    return {
      sessions: page.sessions.map(sessionSnapshot),
      ...given({ nextCursor: page.next_cursor }),
    };
  }

  async update(session: SessionRef, options: SessionUpdateOptions): Promise<SessionSnapshot> {
    const { metadata, tags, expiresAt, ...request } = options;
    const { path, query } = sessionAddress(session);
    const call = { ...request, query, body: { metadata, tags, expires_at: instant(expiresAt) } };
    return sessionSnapshot(await this.#transport().json<SessionRecord>("PATCH", path, call));
  }

  async #start(
    path: string,
    task: Task | string,
    payload: unknown,
    options: SessionStartOptions,
    more: object = {},
  ): Promise<StartRecord> {
    const taskId = await admitted(task, payload);
    const body = {
      task_id: taskId,
      payload,
      secrets: options.secrets,
      ...startWords(options),
      external_id: options.externalId,
      workspace_id: options.workspaceId,
      expires_at: instant(options.expiresAt),
      ...more,
    };
    const call = { ...requestOf(options), body };
    return this.#transport().json<StartRecord>("POST", path, call);
  }
}
