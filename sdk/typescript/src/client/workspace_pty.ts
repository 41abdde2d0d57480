// Terminals in a workspace.
import { text } from "../check.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import { date, given } from "./record.js";
import type { RequestOptions } from "./transport.js";
import type { WorkspaceAddress, WorkspaceRecord } from "./workspace.js";
import { PtyAttachment } from "./workspace_attach.js";
import type { PtyAttachOptions } from "./workspace_attach.js";
import { ProcessInput, ProcessOutput } from "./workspace_stream.js";

export type PtyState = "starting" | "open" | "closed" | "failed" | "lost";

export interface PtySnapshot {
  readonly id: string;
  readonly workspaceId: string;
  readonly workspaceMountId?: string;
  readonly state: PtyState;
  /** Null: the workspace's own directory. */
  readonly cwd: string | null;
  readonly cols: number;
  readonly rows: number;
  readonly outputCursor: number;
  readonly inputCursor: number;
  readonly exitCode?: number;
  readonly error?: string;
  readonly createdAt: Date;
  readonly openedAt?: Date;
  readonly closedAt?: Date;
  readonly updatedAt: Date;
}

export interface PtyCreateOptions extends RequestOptions {
  cwd?: string;
  /** 80 × 24 unless given. */
  cols?: number;
  rows?: number;
  idempotencyKey?: string | IdempotencyKey;
}

export interface PtyListOptions extends RequestOptions {
  /** 50 unless given. */
  limit?: number;
  cursor?: string;
}

export function ptySnapshot(of: WorkspaceRecord): PtySnapshot {
  return {
    id: of.id,
    workspaceId: of.workspace_id,
    state: of.state,
    cwd: of.cwd,
    cols: of.cols,
    rows: of.rows,
    outputCursor: of.output_cursor,
    inputCursor: of.input_cursor,
    createdAt: new Date(of.created_at),
    updatedAt: new Date(of.updated_at),
    ...given({
      workspaceMountId: of.workspace_mount_id as string | null | undefined,
      exitCode: of.exit_code as number | null | undefined,
      error: of.error as string | null | undefined,
      openedAt: date(of.opened_at),
      closedAt: date(of.closed_at),
    }),
  };
}

export class PtyHandle {
  readonly id: string;
  readonly workspaceId: string;
  readonly isCached: boolean;
  readonly output: ProcessOutput;
  readonly #workspace: WorkspaceAddress;
  readonly #path: string;
  readonly #input: ProcessInput;

  constructor(workspace: WorkspaceAddress, id: string, isCached = false) {
    this.id = id;
    this.workspaceId = workspace.id;
    this.isCached = isCached;
    this.#workspace = workspace;
    this.#path = `/pty/${encodeURIComponent(id)}`;
    this.output = new ProcessOutput(workspace, `${this.#path}/output`);
    this.#input = new ProcessInput(workspace, `${this.#path}/input`, async (options) =>
      (await this.retrieve(options)).inputCursor,
    );
  }

  async retrieve(options: RequestOptions = {}): Promise<PtySnapshot> {
    return ptySnapshot(await this.#workspace.json("GET", this.#path, options));
  }

  /** What a keyboard would send. The offset after it. */
  input(
    data: string | Uint8Array,
    options: RequestOptions & { offset?: number } = {},
  ): Promise<number> {
    return this.#input.write(data, options);
  }

  async resize(cols: number, rows: number, options: RequestOptions = {}): Promise<PtySnapshot> {
    return this.#post("/resize", { cols, rows }, options);
  }

  /** Ends it and what runs in it. */
  async close(options: RequestOptions = {}): Promise<PtySnapshot> {
    return this.#post("/close", {}, options);
  }

  /** Over a WebSocket, as people use it. */
  attach(options: PtyAttachOptions = {}): Promise<PtyAttachment> {
    return PtyAttachment.open(this.#workspace, `${this.#path}/attach`, options);
  }

  async #post(path: string, body: object, options: RequestOptions): Promise<PtySnapshot> {
    const call = { ...options, body };
    return ptySnapshot(await this.#workspace.json("POST", this.#path + path, call));
  }
}

export class WorkspacePtys {
  readonly #workspace: WorkspaceAddress;

  constructor(workspace: WorkspaceAddress) {
    this.#workspace = workspace;
  }

  async create(options: PtyCreateOptions = {}): Promise<PtyHandle> {
    const { cwd, cols, rows, idempotencyKey, ...request } = options;
    const body = { cwd, cols, rows, ...idempotencyWords(idempotencyKey) };
    const answer = await this.#workspace.json<{ pty: WorkspaceRecord; is_cached: boolean }>(
      "POST",
      "/pty",
      { ...request, body },
    );
    return new PtyHandle(this.#workspace, answer.pty.id, answer.is_cached);
  }

  /** A handle; whether there is such a terminal shows when it is used. */
  open(id: string): PtyHandle {
    return new PtyHandle(this.#workspace, text("pty", id));
  }

  retrieve(id: string, options: RequestOptions = {}): Promise<PtySnapshot> {
    return this.open(id).retrieve(options);
  }

  /** Newest first. */
  async list(options: PtyListOptions = {}): Promise<PtySnapshot[]> {
    const { limit, cursor, ...request } = options;
    const { ptys } = await this.#workspace.json<{ ptys: WorkspaceRecord[] }>("GET", "/pty", {
      ...request,
      query: { limit, cursor },
    });
    return ptys.map(ptySnapshot);
  }
}
