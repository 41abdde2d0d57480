// Workspaces, their mounts and versions as the server shows them, and how one is named.
import { text } from "../check.js";
import { date, given } from "./record.js";
import type { Call, RequestOptions, Transport } from "./transport.js";

export type WorkspaceState = "active" | "archived" | "recovery_required" | "deleting" | "deleted";
export type MountState = "mounting" | "mounted" | "unmounting" | "unmounted" | "failed" | "lost";
export type VersionKind = "user" | "system";

export interface WorkspaceSnapshot {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly sandboxId: string;
  readonly sandboxFingerprint: string;
  readonly deploymentId: string;
  readonly externalId?: string;
  readonly state: WorkspaceState;
  /** Absent while nothing was ever written to it. */
  readonly currentVersionId?: string;
  /** While it is in a sandbox of its own, or about to be. */
  readonly mount?: { readonly id: string; readonly state: MountState };
  /** The workspace it is a branch of. */
  readonly forkedFrom?: string;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface MountSnapshot {
  readonly id: string;
  readonly workspaceId: string;
  readonly state: MountState;
  readonly fencingGeneration: number;
  readonly workerId?: string;
  readonly engine?: string;
  readonly grade?: string;
  /** Why there is none, or no more. */
  readonly error?: string;
  readonly createdAt: Date;
  readonly mountedAt?: Date;
  readonly unmountedAt?: Date;
}

export interface WorkspaceVersion {
  readonly id: string;
  readonly workspaceId: string;
  /** The version before it, or the one a branch was made from. */
  readonly parentId?: string;
  readonly kind: VersionKind;
  readonly state: string;
  readonly isCurrent: boolean;
  readonly runId?: string;
  readonly attemptNumber?: number;
  readonly sizeBytes: number;
  readonly entries: number;
  /** Equal for equal content. */
  readonly digest: string;
  readonly createdAt: Date;
  readonly readyAt?: Date;
}

/** A workspace, its handle or its id. */
export type WorkspaceRef = string | { readonly id: string };

export type WorkspaceRecord = Record<string, any>;

export function workspaceId(workspace: WorkspaceRef): string {
  return typeof workspace === "string"
    ? text("workspace", workspace)
    : text("workspace.id", workspace.id);
}

export function workspaceSnapshot(of: WorkspaceRecord): WorkspaceSnapshot {
  return {
    id: of.id,
    projectId: of.project_id,
    environmentId: of.environment_id,
    sandboxId: of.sandbox_id,
    sandboxFingerprint: of.sandbox_fingerprint,
    deploymentId: of.deployment_id,
    state: of.state,
    metadata: of.metadata,
    tags: of.tags,
    createdAt: new Date(of.created_at),
    updatedAt: new Date(of.updated_at),
    ...given({
      externalId: of.external_id as string | null | undefined,
      currentVersionId: of.current_version_id as string | null | undefined,
      mount: of.mount as WorkspaceSnapshot["mount"] | null,
      forkedFrom: of.forked_from as string | null | undefined,
    }),
  };
}

export function mountSnapshot(of: WorkspaceRecord): MountSnapshot {
  return {
    id: of.id,
    workspaceId: of.workspace_id,
    state: of.state,
    fencingGeneration: of.fencing_generation,
    createdAt: new Date(of.created_at),
    ...given({
      workerId: of.worker_id as string | null | undefined,
      engine: of.engine as string | null | undefined,
      grade: of.grade as string | null | undefined,
      error: of.error as string | null | undefined,
      mountedAt: date(of.mounted_at),
      unmountedAt: date(of.unmounted_at),
    }),
  };
}

export function workspaceVersion(of: WorkspaceRecord): WorkspaceVersion {
  return {
    id: of.id,
    workspaceId: of.workspace_id,
    kind: of.kind,
    state: of.state,
    isCurrent: of.is_current === true,
    sizeBytes: of.size_bytes,
    entries: of.entries,
    digest: of.digest,
    createdAt: new Date(of.created_at),
    ...given({
      parentId: of.parent_id as string | null | undefined,
      runId: of.run_id as string | null | undefined,
      attemptNumber: of.attempt_number as number | null | undefined,
      readyAt: date(of.ready_at),
    }),
  };
}

/** One workspace on the server: where its parts are asked for, in the scope it was opened in. */
export class WorkspaceAddress {
  readonly id: string;
  readonly #transport: () => Transport;
  readonly #scope: RequestOptions;

  constructor(transport: () => Transport, workspace: WorkspaceRef, scope: RequestOptions) {
    this.id = workspaceId(workspace);
    this.#transport = transport;
    this.#scope = scope;
  }

  json<T>(method: string, path: string, call: Call = {}): Promise<T> {
    return this.#transport().json<T>(method, this.#path(path), { ...this.#scope, ...call });
  }

  open(method: string, path: string, call: Call = {}): Promise<Response> {
    return this.#transport().open(method, this.#path(path), { ...this.#scope, ...call });
  }

  socket(path: string, protocol: string, call: Call = {}): WebSocket {
    return this.#transport().socket(this.#path(path), protocol, { ...this.#scope, ...call });
  }

  #path(path: string): string {
    return `/workspaces/${encodeURIComponent(this.id)}${path}`;
  }
}
