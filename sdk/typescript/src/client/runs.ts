import { AuthError, HelmrApiError, RunNotFoundError, TimeoutError } from "../errors.js";
import { wholeDiff } from "./diff.js";
import type { Diff, DiffRecord, DiffSide } from "./diff.js";
import { followRun, runEvent } from "./events.js";
import type { EventRecord, RunEvent } from "./events.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import { given } from "./record.js";
import { runId, runSnapshot } from "./run.js";
import type { RunRecord, RunRef, RunSnapshot, RunStatus } from "./run.js";
import { sessionSnapshot } from "./session.js";
import type { SessionRecord, SessionSnapshot } from "./session.js";
import { sleep } from "./sleep.js";
import { tokenSnapshot } from "./token.js";
import type { Token, TokenRecord } from "./token.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import { waitSnapshot } from "./wait.js";
import type { Wait, WaitRecord } from "./wait.js";

export interface RunListOptions extends RequestOptions {
  /** Runs that are not over, unless given. */
  status?: RunStatus | "live" | "all";
  sessionId?: string;
  taskId?: string;
  limit?: number;
  cursor?: string;
}

export interface RunPage {
  readonly runs: RunSnapshot[];
  readonly nextCursor?: string;
}

export interface ForkOptions extends RequestOptions {
  /** The pending wait, else the last one, unless given. */
  waitId?: string;
  /** The answer the fork goes on with; without one it waits as the run does. */
  data?: unknown;
  externalId?: string;
  metadata?: Record<string, unknown>;
  tags?: string[];
  idempotencyKey?: string | IdempotencyKey;
}

export interface RunCancelOptions extends RequestOptions {
  reason?: string;
  /** Without the time to end by itself. */
  force?: boolean;
  idempotencyKey?: string | IdempotencyKey;
}

export interface RunCancellation {
  readonly run: RunSnapshot;
  readonly operation: RunOperation;
}

export interface RunWaitOptions extends RequestOptions {
  timeoutMs?: number;
  /** Between two looks while events are not to be had; 1 s unless given. */
  intervalMs?: number;
}

export interface RunEventListOptions extends RequestOptions {
  cursor?: string;
  pageSize?: number;
}

export interface RunEventOptions extends RequestOptions {
  /** Only what happened after it. */
  cursor?: string;
}

export interface Fork {
  readonly session: SessionSnapshot;
  readonly run: RunSnapshot;
  readonly wait: Wait;
  /** Of the fork's own, when it waits for a token. */
  readonly token?: Token;
}

export interface DiffOptions extends RequestOptions {
  /** The version that the run began with unless given. */
  from?: DiffSide;
  /** The newest version of the run unless given; `"live"`: what its sandbox holds right now. */
  to?: DiffSide;
  /** With the text of each change. */
  patch?: boolean;
  /** Only below this path. */
  path?: string;
}

export interface RunLogs {
  readonly stdout: string;
  readonly stderr: string;
  readonly cursor: string;
  readonly truncated: boolean;
}

export interface RunOperation {
  readonly id: string;
  readonly runId: string;
  readonly kind: "cancel";
  readonly status: "pending" | "applied" | "ignored";
  readonly reason?: string;
  readonly createdAt: Date;
  readonly appliedAt?: Date;
}

interface OperationRecord {
  id: string;
  run_id: string;
  kind: "cancel";
  status: RunOperation["status"];
  reason?: string;
  created_at: string;
  applied_at?: string;
}

interface ForkRecord {
  session: SessionRecord;
  run: RunRecord;
  wait: WaitRecord;
  token?: TokenRecord | null;
}

interface LogRecord {
  stdout_base64: string;
  stderr_base64: string;
  cursor: string;
  truncated: boolean;
}

interface EventPage {
  events: EventRecord[];
  next_cursor?: string;
}

const pollMs = 1000;

function operation(of: OperationRecord): RunOperation {
  return {
    id: of.id,
    runId: of.run_id,
    kind: of.kind,
    status: of.status,
    createdAt: new Date(of.created_at),
    ...(of.reason && { reason: of.reason }),
    ...(of.applied_at && { appliedAt: new Date(of.applied_at) }),
  };
}

function decoded(base64: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
}

export class Runs {
  readonly #transport: () => Transport;
  readonly logs = {
    retrieve: (run: RunRef, options: RequestOptions = {}) => this.#logs(run, options),
  };
  readonly events = {
    list: (run: RunRef, options: RunEventListOptions = {}) => this.#events(run, options),
    subscribe: (run: RunRef, options: RunEventOptions = {}) => this.#subscribe(run, options),
  };

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async retrieve<O>(run: RunRef<O>, options: RequestOptions = {}): Promise<RunSnapshot<O>> {
    return runSnapshot<O>(await this.#call<RunRecord>("GET", run, "", options));
  }

  async list(options: RunListOptions = {}): Promise<RunSnapshot[]> {
    return (await this.listPage(options)).runs;
  }

  async listPage(options: RunListOptions = {}): Promise<RunPage> {
    const { status, sessionId, taskId, limit, cursor, ...request } = options;
    const query = { status, session_id: sessionId, task_id: taskId, limit, cursor };
    const page = await this.#transport().json<{ runs: RunRecord[]; next_cursor?: string }>(
      "GET",
      "/runs",
      {
        ...request,
        query,
      },
    );
    return {
      runs: page.runs.map((run) => runSnapshot(run)),
      ...(page.next_cursor && { nextCursor: page.next_cursor }),
    };
  }

  async cancel(run: RunRef, options: RunCancelOptions = {}): Promise<RunCancellation> {
    const { reason, force, idempotencyKey, ...request } = options;
    const body = { reason, force, ...idempotencyWords(idempotencyKey) };
    const answer = await this.#call<{ run: RunRecord; operation: OperationRecord }>(
      "POST",
      run,
      "/cancel",
      {
        ...request,
        body,
      },
    );
    return { run: runSnapshot(answer.run), operation: operation(answer.operation) };
  }

  /** The run's snapshot once it is over. Follows its events; asks again when they break off. */
  async wait<O>(run: RunRef<O>, options: RunWaitOptions = {}): Promise<RunSnapshot<O>> {
    const { timeoutMs, intervalMs = pollMs, ...request } = options;
    const limit = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    const signals = [limit, request.signal].filter((signal) => signal !== undefined);
    const bounded = { ...request, ...(signals.length > 0 && { signal: AbortSignal.any(signals) }) };
    try {
      return await this.#untilTerminal(run, bounded, intervalMs);
    } catch (error) {
      if (limit?.aborted && !request.signal?.aborted)
        throw new TimeoutError(`run ${runId(run)} was not over after ${timeoutMs} ms`);
      throw error;
    }
  }

  /** Everything the run waited for so far, oldest first. */
  async waits(run: RunRef, options: RequestOptions = {}): Promise<Wait[]> {
    const { waits } = await this.#call<{ waits: WaitRecord[] }>("GET", run, "/waits", options);
    return waits.map(waitSnapshot);
  }

  /** A new run from the run's checkpoint at a wait, with a session and a workspace of its own. */
  async fork(run: RunRef, options: ForkOptions = {}): Promise<Fork> {
    const { waitId, data, externalId, metadata, tags, idempotencyKey, ...request } = options;
    const body = {
      wait_id: waitId,
      data,
      external_id: externalId,
      metadata,
      tags,
      ...idempotencyWords(idempotencyKey),
    };
    const made = await this.#call<ForkRecord>("POST", run, "/fork", { ...request, body });
    return {
      session: sessionSnapshot(made.session),
      run: runSnapshot(made.run),
      wait: waitSnapshot(made.wait),
      ...(made.token && { token: tokenSnapshot(made.token) }),
    };
  }

  /** What the run changed in its workspace; all of it, however many pages that is. */
  diff(run: RunRef, options: DiffOptions = {}): Promise<Diff> {
    const { from, to, patch, path, ...request } = options;
    return wholeDiff({ from, to, patch, path }, (query) =>
      this.#call<DiffRecord>("GET", run, "/diff", { ...request, query }),
    );
  }

  async #untilTerminal<O>(
    run: RunRef<O>,
    options: RequestOptions,
    intervalMs: number,
  ): Promise<RunSnapshot<O>> {
    for (let cursor: string | undefined; ;) {
      let snapshot: RunSnapshot<O> | undefined;
      try {
        snapshot = await this.retrieve(run, options);
        if (snapshot.isTerminal) return snapshot;
        for await (const event of this.#follow(run, { ...options, ...given({ cursor }) }))
          cursor = event.cursor;
      } catch (error) {
        /* A run that could be seen can be asked for again, whatever its events answer. */
        const isRefused =
          snapshot === undefined && error instanceof HelmrApiError && error.status < 500;
        if (
          isRefused ||
          options.signal?.aborted ||
          error instanceof AuthError ||
          error instanceof RunNotFoundError
        )
          throw error;
        await sleep(intervalMs, options.signal);
      }
    }
  }

  async #logs(run: RunRef, options: RequestOptions): Promise<RunLogs> {
    const log = await this.#call<LogRecord>("GET", run, "/logs", options);
    return {
      stdout: decoded(log.stdout_base64),
      stderr: decoded(log.stderr_base64),
      cursor: log.cursor,
      truncated: log.truncated,
    };
  }

  async #events(run: RunRef, options: RunEventListOptions): Promise<RunEvent[]> {
    const { cursor: start, pageSize, ...request } = options;
    const all: RunEvent[] = [];
    for (let cursor = start; ;) {
      const query = { cursor, limit: pageSize };
      const page = await this.#call<EventPage>("GET", run, "/events", { ...request, query });
      all.push(...page.events.map(runEvent).filter((event) => event !== undefined));
      if (page.next_cursor === undefined || page.next_cursor === null) return all;
      cursor = page.next_cursor;
    }
  }

  async *#subscribe(run: RunRef, options: RunEventOptions): AsyncGenerator<RunEvent> {
    for await (const record of this.#follow(run, options)) {
      const event = runEvent(record);
      if (event) yield event;
    }
  }

  async *#follow(run: RunRef, options: RunEventOptions): AsyncGenerator<EventRecord> {
    const { cursor: _cursor, ...request } = options;
    const path = `/runs/${encodeURIComponent(runId(run))}/events`;
    const isOver = async (): Promise<boolean> => (await this.retrieve(run, request)).isTerminal;
    try {
      yield* followRun(this.#transport(), path, options, isOver);
    } catch (error) {
      throw notFound(error, run);
    }
  }

  async #call<T>(method: string, run: RunRef, path: string, call: Call): Promise<T> {
    try {
      return await this.#transport().json<T>(
        method,
        `/runs/${encodeURIComponent(runId(run))}${path}`,
        call,
      );
    } catch (error) {
      throw notFound(error, run);
    }
  }
}

function notFound(error: unknown, run: RunRef): unknown {
  return error instanceof HelmrApiError && error.status === 404
    ? new RunNotFoundError(runId(run))
    : error;
}
