// Commands in a workspace.
import { list, text } from "../check.js";
import type { DurationInput } from "../duration.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import { date, given } from "./record.js";
import { sleep } from "./sleep.js";
import { length } from "./start.js";
import type { RequestOptions } from "./transport.js";
import type { WorkspaceAddress, WorkspaceRecord } from "./workspace.js";
import { ProcessInput, ProcessOutput } from "./workspace_stream.js";

export type ExecState = "queued" | "running" | "exited" | "failed" | "lost";
export type ProcessSignal = "TERM" | "KILL" | "INT" | "HUP";

export interface ExecSnapshot {
  readonly id: string;
  readonly workspaceId: string;
  readonly workspaceMountId?: string;
  readonly command: readonly string[];
  /** Null: the workspace's own directory. */
  readonly cwd: string | null;
  /** Names of the variables it was given, never their values. */
  readonly envShape: readonly string[];
  readonly state: ExecState;
  readonly detached: boolean;
  readonly processId?: number;
  readonly exitCode?: number;
  /** That ended it. */
  readonly signal?: string;
  readonly error?: string;
  readonly stdoutCursor: number;
  readonly stderrCursor: number;
  readonly stdinCursor: number;
  readonly stdinClosedAt?: Date;
  readonly createdAt: Date;
  readonly startedAt?: Date;
  readonly exitedAt?: Date;
  readonly updatedAt: Date;
}

export interface ExecOptions extends RequestOptions {
  /** The directory it starts in; the workspace's unless given. */
  cwd?: string;
  env?: Record<string, string>;
  /** It is ended after that. */
  timeout?: DurationInput;
  /** It goes on when nobody looks, also in a workspace that is otherwise idle. */
  detached?: boolean;
  idempotencyKey?: string | IdempotencyKey;
}

export interface ExecWaitOptions extends RequestOptions {
  /** 250 unless given. */
  pollIntervalMs?: number;
}

export interface ExecTerminateOptions extends Omit<RequestOptions, "signal"> {
  /** What the program is sent: TERM unless given. */
  signal?: ProcessSignal;
}

export interface ExecListOptions extends RequestOptions {
  /** 50 unless given. */
  limit?: number;
  cursor?: string;
}

const over: readonly string[] = ["exited", "failed", "lost"];
const pollMs = 250;

export function execSnapshot(of: WorkspaceRecord): ExecSnapshot {
  return {
    id: of.id,
    workspaceId: of.workspace_id,
    command: of.command,
    cwd: of.cwd,
    envShape: of.env_shape,
    state: of.state,
    detached: of.detached === true,
    stdoutCursor: of.stdout_cursor,
    stderrCursor: of.stderr_cursor,
    stdinCursor: of.stdin_cursor,
    createdAt: new Date(of.created_at),
    updatedAt: new Date(of.updated_at),
    ...given({
      workspaceMountId: of.workspace_mount_id as string | null | undefined,
      processId: of.process_id as number | null | undefined,
      exitCode: of.exit_code as number | null | undefined,
      signal: of.signal as string | null | undefined,
      error: of.error as string | null | undefined,
      stdinClosedAt: date(of.stdin_closed_at),
      startedAt: date(of.started_at),
      exitedAt: date(of.exited_at),
    }),
  };
}

/** The input of a command. */
export class ExecInput {
  readonly #workspace: WorkspaceAddress;
  readonly #path: string;
  readonly #input: ProcessInput;

  constructor(workspace: WorkspaceAddress, path: string) {
    this.#workspace = workspace;
    this.#path = path;
    this.#input = new ProcessInput(workspace, `${path}/stdin`, async (options) =>
      execSnapshot(await workspace.json("GET", path, options)).stdinCursor,
    );
  }

  /** The offset after it. */
  write(
    data: string | Uint8Array,
    options: RequestOptions & { offset?: number } = {},
  ): Promise<number> {
    return this.#input.write(data, options);
  }

  /** After what was written comes nothing more. */
  async close(options: RequestOptions = {}): Promise<void> {
    await this.#input.settled();
    await this.#workspace.open("POST", `${this.#path}/stdin/close`, { ...options, body: {} });
  }
}

export class ExecHandle {
  readonly id: string;
  readonly workspaceId: string;
  /** The same request had been made before, with the same idempotency key. */
  readonly isCached: boolean;
  readonly stdout: ProcessOutput;
  readonly stderr: ProcessOutput;
  readonly stdin: ExecInput;
  readonly #workspace: WorkspaceAddress;
  readonly #path: string;

  constructor(workspace: WorkspaceAddress, id: string, isCached = false) {
    this.id = id;
    this.workspaceId = workspace.id;
    this.isCached = isCached;
    this.#workspace = workspace;
    this.#path = `/execs/${encodeURIComponent(id)}`;
    this.stdout = new ProcessOutput(workspace, `${this.#path}/stdout`);
    this.stderr = new ProcessOutput(workspace, `${this.#path}/stderr`);
    this.stdin = new ExecInput(workspace, this.#path);
  }

  async retrieve(options: RequestOptions = {}): Promise<ExecSnapshot> {
    return execSnapshot(await this.#workspace.json("GET", this.#path, options));
  }

  /** Until it has exited, could not start, or is lost with its sandbox. */
  async wait(options: ExecWaitOptions = {}): Promise<ExecSnapshot> {
    const { pollIntervalMs = pollMs, ...request } = options;
    for (;;) {
      const exec = await this.retrieve(request);
      if (over.includes(exec.state)) return exec;
      await sleep(pollIntervalMs, request.signal);
    }
  }

  async terminate(options: ExecTerminateOptions = {}): Promise<ExecSnapshot> {
    const { signal, ...request } = options;
    const call = { ...request, body: { signal } };
    return execSnapshot(await this.#workspace.json("POST", `${this.#path}/terminate`, call));
  }
}

export class WorkspaceExecs {
  readonly #workspace: WorkspaceAddress;

  constructor(workspace: WorkspaceAddress) {
    this.#workspace = workspace;
  }

  async start(command: readonly string[], options: ExecOptions = {}): Promise<ExecHandle> {
    const { cwd, env, timeout, detached, idempotencyKey, ...request } = options;
    const body = {
      command: list("command", command).map((word, i) =>
        typeof word === "string" && word === "" ? "" : text(`command[${i}]`, word),
      ),
      cwd,
      env,
      timeout: length("timeout", timeout),
      detached,
      ...idempotencyWords(idempotencyKey),
    };
    const answer = await this.#workspace.json<{ exec: WorkspaceRecord; is_cached: boolean }>(
      "POST",
      "/execs",
      { ...request, body },
    );
    return new ExecHandle(this.#workspace, answer.exec.id, answer.is_cached);
  }

  /** A handle; whether there is such a command shows when it is used. */
  open(id: string): ExecHandle {
    return new ExecHandle(this.#workspace, text("exec", id));
  }

  retrieve(id: string, options: RequestOptions = {}): Promise<ExecSnapshot> {
    return this.open(id).retrieve(options);
  }

  /** Newest first. */
  async list(options: ExecListOptions = {}): Promise<ExecSnapshot[]> {
    const { limit, cursor, ...request } = options;
    const { execs } = await this.#workspace.json<{ execs: WorkspaceRecord[] }>("GET", "/execs", {
      ...request,
      query: { limit, cursor },
    });
    return execs.map(execSnapshot);
  }
}
