// A session as the server shows it, and how it is named.
import { text } from "../check.js";
import { date, given } from "./record.js";
import type { SessionHandle } from "./sessions.js";
import type { RequestOptions } from "./transport.js";

export type SessionStatus = "open" | "closed" | "cancelled" | "expired";
export type SessionActivity = "idle" | "queued" | "waiting" | "running";

export interface SessionSnapshot {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly taskId: string;
  readonly initialDeploymentId: string;
  readonly activeDeploymentId: string;
  readonly externalId?: string;
  readonly status: SessionStatus;
  /** What its runs are doing. */
  readonly activity: SessionActivity;
  readonly canClose: boolean;
  readonly currentRunId: string | null;
  readonly workspaceId: string;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly result?: unknown;
  readonly error?: unknown;
  readonly timedOut: boolean;
  readonly terminalReason?: string;
  /** The run and the wait it was made from, when it is a fork. */
  readonly forkedFrom?: { readonly runId: string; readonly waitId: string };
  readonly expiresAt: Date | null;
  readonly expiredAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** A session, its handle or its id; or what whoever started it calls it. */
export type SessionRef =
  | string
  | { readonly id: string }
  | { readonly externalId: string }
  | SessionHandle;

/** Where a session is found, and in whose scope. */
export interface SessionAddress {
  readonly path: string;
  readonly query: Record<string, string>;
  readonly scope: RequestOptions;
}

export function sessionName(session: SessionRef): { id?: string; externalId?: string } {
  if (typeof session === "string") return { id: text("session", session) };
  const { id, externalId } = session as { id?: string; externalId?: string };
  if (id !== undefined) return { id: text("session.id", id), ...given({ externalId }) };
  return { externalId: text("session.externalId", externalId) };
}

export function sessionAddress(session: SessionRef, scope: RequestOptions = {}): SessionAddress {
  const { id, externalId } = sessionName(session);
  if (id !== undefined) return { path: `/sessions/${encodeURIComponent(id)}`, query: {}, scope };
  return {
    path: "/sessions/by-external-id",
    query: { external_id: externalId as string },
    scope,
  };
}

export type SessionRecord = Record<string, any>;

export function sessionSnapshot(session: SessionRecord): SessionSnapshot {
  const { forked_from: forkedFrom } = session;
  return {
    id: session.id,
    projectId: session.project_id,
    environmentId: session.environment_id,
    taskId: session.task_id,
    initialDeploymentId: session.initial_deployment_id,
    activeDeploymentId: session.active_deployment_id,
    status: session.status,
    activity: session.activity,
    canClose: session.can_close,
    currentRunId: session.current_run_id ?? null,
    workspaceId: session.workspace_id,
    metadata: session.metadata ?? {},
    tags: session.tags ?? [],
    timedOut: session.timed_out ?? false,
    expiresAt: date(session.expires_at) ?? null,
    expiredAt: date(session.expired_at) ?? null,
    createdAt: new Date(session.created_at),
    updatedAt: new Date(session.updated_at),
    ...given({
      externalId: session.external_id as string | null | undefined,
      result: session.result,
      error: session.error,
      terminalReason: session.terminal_reason as string | null | undefined,
      forkedFrom: forkedFrom && { runId: forkedFrom.run_id, waitId: forkedFrom.wait_id },
    }),
  };
}
