// A session as the server shows it: what a run belongs to.
import { date, given } from "./record.js";

export type SessionStatus = "open" | "closed" | "cancelled" | "expired";

export interface SessionSnapshot {
  readonly id: string;
  readonly projectId: string;
  readonly environmentId: string;
  readonly taskId: string;
  readonly externalId?: string;
  readonly status: SessionStatus;
  readonly currentRunId?: string;
  readonly workspaceId: string;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly createdAt: Date;
  readonly updatedAt?: Date;
}

export type SessionRecord = Record<string, any>;

export function sessionSnapshot(session: SessionRecord): SessionSnapshot {
  return {
    id: session.id,
    projectId: session.project_id,
    environmentId: session.environment_id,
    taskId: session.task_id,
    status: session.status,
    workspaceId: session.workspace_id,
    metadata: session.metadata ?? {},
    tags: session.tags ?? [],
    createdAt: new Date(session.created_at),
    ...given({
      externalId: session.external_id as string | null | undefined,
      currentRunId: session.current_run_id as string | null | undefined,
      updatedAt: date(session.updated_at),
    }),
  };
}
