// Workspaces: directories that outlive the runs in them.
import type { DurationInput } from "../duration.js";
import { wholeDiff } from "./diff.js";
import type { Diff, DiffRecord, DiffSide } from "./diff.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import { given } from "./record.js";
import { length } from "./start.js";
import { requestOf } from "./transport.js";
import type { RequestOptions, Transport } from "./transport.js";
import { mountSnapshot, WorkspaceAddress, workspaceSnapshot } from "./workspace.js";
import type {
  MountSnapshot,
  WorkspaceRecord,
  WorkspaceRef,
  WorkspaceSnapshot,
  WorkspaceState,
} from "./workspace.js";
import { WorkspaceExecs } from "./workspace_exec.js";
import type { ExecHandle, ExecOptions } from "./workspace_exec.js";
import { WorkspaceFiles } from "./workspace_files.js";
import { WorkspacePtys } from "./workspace_pty.js";
import { WorkspaceVersions } from "./workspace_versions.js";

export interface WorkspaceCreateOptions extends RequestOptions {
  /** The sandbox its programs run in. */
  sandboxId: string;
  /** Of which deployment, by id or version; of the current one unless given. */
  deploymentId?: string;
  /** Begins with the files of this version, of any workspace of the environment. */
  fromVersionId?: string;
  /** The caller's own name for it: creating it again gives the same workspace. */
  externalId?: string;
  metadata?: Record<string, unknown>;
  tags?: string[];
  idempotencyKey?: string | IdempotencyKey;
  idempotencyKeyTTL?: DurationInput;
}

export interface CreatedWorkspace {
  readonly workspace: WorkspaceSnapshot;
  /** It was there already. */
  readonly isCached: boolean;
}

export interface WorkspaceListOptions extends RequestOptions {
  /** All that are not deleted unless given. */
  state?: WorkspaceState | "all";
  externalId?: string;
  tag?: string;
  limit?: number;
  cursor?: string;
}

export interface WorkspacePage {
  readonly workspaces: WorkspaceSnapshot[];
  readonly nextCursor?: string;
}

export interface WorkspaceUpdateOptions extends RequestOptions {
  metadata?: Record<string, unknown>;
  tags?: string[];
  /** An archived one is read and not written to. */
  state?: "active" | "archived";
}

export interface WorkspaceStopOptions extends RequestOptions {
  idempotencyKey?: string | IdempotencyKey;
  idempotencyKeyTTL?: DurationInput;
}

export interface WorkspaceDiffOptions extends RequestOptions {
  /** The version before the current one unless given; with `to: "live"` the current one. */
  from?: DiffSide;
  /** The current version unless given. */
  to?: DiffSide;
  /** With the changed lines of texts. */
  patch?: boolean;
  /** Only what is at or below this path. */
  path?: string;
}

/** One workspace by its id; nothing is asked of the server until a method is called. */
export class WorkspaceHandle {
  readonly id: string;
  readonly files: WorkspaceFiles;
  readonly versions: WorkspaceVersions;
  readonly execs: WorkspaceExecs;
  readonly pty: WorkspacePtys;
  readonly #workspace: WorkspaceAddress;

  constructor(transport: () => Transport, workspace: WorkspaceRef, scope: RequestOptions) {
    this.#workspace = new WorkspaceAddress(transport, workspace, scope);
    this.id = this.#workspace.id;
    this.files = new WorkspaceFiles(this.#workspace);
    this.versions = new WorkspaceVersions(this.#workspace);
    this.execs = new WorkspaceExecs(this.#workspace);
    this.pty = new WorkspacePtys(this.#workspace);
  }

  async retrieve(options: RequestOptions = {}): Promise<WorkspaceSnapshot> {
    return workspaceSnapshot(await this.#workspace.json("GET", "", options));
  }

  async update(options: WorkspaceUpdateOptions): Promise<WorkspaceSnapshot> {
    const { metadata, tags, state, ...request } = options;
    const call = { ...request, body: { metadata, tags, state } };
    return workspaceSnapshot(await this.#workspace.json("PATCH", "", call));
  }

  /** With all its versions. Runs that worked in it stay. */
  async delete(options: RequestOptions = {}): Promise<WorkspaceSnapshot> {
    return workspaceSnapshot(await this.#workspace.json("DELETE", "", options));
  }

  /** Asks for a sandbox with the workspace in it, unless there is one. */
  async materialize(options: RequestOptions = {}): Promise<MountSnapshot> {
    const call = { ...options, body: {} };
    return mountSnapshot(await this.#workspace.json("POST", "/materialize", call));
  }

  /** Its programs end, what changed becomes a version, and the sandbox goes. */
  async stop(options: WorkspaceStopOptions = {}): Promise<WorkspaceSnapshot> {
    const { idempotencyKey, idempotencyKeyTTL, ...request } = options;
    const body = { ...idempotencyWords(idempotencyKey), ...ttl(idempotencyKeyTTL) };
    return workspaceSnapshot(await this.#workspace.json("POST", "/stop", { ...request, body }));
  }

  /** Starts a command. */
  exec(command: readonly string[], options: ExecOptions = {}): Promise<ExecHandle> {
    return this.execs.start(command, options);
  }

  /** All that differs, however many pages that is. */
  diff(options: WorkspaceDiffOptions = {}): Promise<Diff> {
    const { from, to, patch, path, ...request } = options;
    return wholeDiff({ from, to, patch, path }, (query) =>
      this.#workspace.json<DiffRecord>("GET", "/diff", { ...request, query }),
    );
  }
}

const ttl = (value: DurationInput | undefined): { idempotency_key_ttl?: string } =>
  value === undefined ? {} : { idempotency_key_ttl: length("idempotencyKeyTTL", value) as string };

export class Workspaces {
  readonly #transport: () => Transport;

  constructor(transport: () => Transport) {
    this.#transport = transport;
  }

  async create(options: WorkspaceCreateOptions): Promise<CreatedWorkspace> {
    const { sandboxId, deploymentId, fromVersionId, externalId, metadata, tags } = options;
    const body = {
      sandbox_id: sandboxId,
      deployment_id: deploymentId,
      from_version_id: fromVersionId,
      external_id: externalId,
      metadata,
      tags,
      ...idempotencyWords(options.idempotencyKey),
      ...ttl(options.idempotencyKeyTTL),
    };
    const answer = await this.#transport().json<{ workspace: WorkspaceRecord; is_cached: boolean }>(
      "POST",
      "/workspaces",
      { ...requestOf(options), body },
    );
    return { workspace: workspaceSnapshot(answer.workspace), isCached: answer.is_cached };
  }

  /** A handle; whether there is such a workspace shows when it is used. */
  open(workspace: WorkspaceRef, scope: RequestOptions = {}): WorkspaceHandle {
    return new WorkspaceHandle(this.#transport, workspace, requestOf(scope));
  }

  retrieve(workspace: WorkspaceRef, options: RequestOptions = {}): Promise<WorkspaceSnapshot> {
    return this.open(workspace).retrieve(options);
  }

  /** Newest first. */
  async list(options: WorkspaceListOptions = {}): Promise<WorkspaceSnapshot[]> {
    return (await this.listPage(options)).workspaces;
  }

  async listPage(options: WorkspaceListOptions = {}): Promise<WorkspacePage> {
    const { state, externalId, tag, limit, cursor, ...request } = options;
    const query = { state, external_id: externalId, tag, limit, cursor };
    const page = await this.#transport().json<{
      workspaces: WorkspaceRecord[];
      next_cursor?: string | null;
    }>("GET", "/workspaces", { ...request, query });
    return {
      workspaces: page.workspaces.map(workspaceSnapshot),
      ...given({ nextCursor: page.next_cursor }),
    };
  }

  update(workspace: WorkspaceRef, options: WorkspaceUpdateOptions): Promise<WorkspaceSnapshot> {
    return this.open(workspace).update(options);
  }

  delete(workspace: WorkspaceRef, options: RequestOptions = {}): Promise<WorkspaceSnapshot> {
    return this.open(workspace).delete(options);
  }

  materialize(workspace: WorkspaceRef, options: RequestOptions = {}): Promise<MountSnapshot> {
    return this.open(workspace).materialize(options);
  }

  stop(workspace: WorkspaceRef, options: WorkspaceStopOptions = {}): Promise<WorkspaceSnapshot> {
    return this.open(workspace).stop(options);
  }
}
