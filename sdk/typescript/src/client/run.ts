// A run as the server shows it, in the words of this package.
import { date, given } from "./record.js";
import { waitSnapshot } from "./wait.js";
import type { Wait } from "./wait.js";

export type RunStatus =
  "queued" | "running" | "waiting" | "succeeded" | "failed" | "cancelled" | "expired";

export interface RunError {
  readonly layer: string;
  readonly failureKind: string;
  readonly message: string;
  readonly details?: Record<string, unknown>;
}

declare const output: unique symbol;

/** Only there for the type system: what the task of a run returns. */
export interface OutputOf<O> {
  readonly [output]?: O;
}

export interface RunSnapshot<O = unknown> extends OutputOf<O> {
  readonly id: string;
  readonly sessionId: string;
  readonly workspaceId: string;
  readonly taskId: string;
  readonly status: RunStatus;
  readonly exitCode: number | null;
  readonly attemptNumber?: number;
  readonly output?: O;
  readonly error?: RunError;
  readonly metadata: Record<string, unknown>;
  readonly tags: readonly string[];
  readonly payload: unknown;
  readonly deploymentVersion: string;
  readonly apiVersion: string;
  readonly sdkVersion?: string;
  readonly cliVersion?: string;
  readonly isolation?: {
    readonly engine: string;
    readonly grade: string;
    readonly accelerated: boolean;
  };
  /** The run and the wait this one was made from, when it is a fork. */
  readonly forkedFrom?: { readonly runId: string; readonly waitId: string };
  /** What the run waits for now. */
  readonly pendingWait: Wait | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly startedAt?: Date;
  readonly finishedAt?: Date;
  readonly isQueued: boolean;
  readonly isRunning: boolean;
  readonly isWaiting: boolean;
  readonly isTerminal: boolean;
  readonly isSuccess: boolean;
  readonly isFailed: boolean;
  readonly isCancelled: boolean;
  readonly isExpired: boolean;
}

/** A run, its handle or its id. */
export type RunRef<O = unknown> = string | (OutputOf<O> & { readonly id: string });

export const runId = (run: RunRef): string => (typeof run === "string" ? run : run.id);

export type RunRecord = Record<string, any> & { id: string; status: RunStatus };

const live: readonly RunStatus[] = ["queued", "running", "waiting"];

function failure(error: Record<string, any>): RunError {
  const { layer, failure_kind, message, details } = error;
  return { layer, failureKind: failure_kind, message, ...(details && { details }) };
}

export function runSnapshot<O = unknown>(run: RunRecord): RunSnapshot<O> {
  return {
    id: run.id,
    sessionId: run.session_id,
    workspaceId: run.workspace_id,
    taskId: run.task_id,
    status: run.status,
    exitCode: run.exit_code ?? null,
    metadata: run.metadata ?? {},
    tags: run.tags ?? [],
    payload: run.payload,
    deploymentVersion: run.deployment_version,
    apiVersion: run.api_version,
    createdAt: new Date(run.created_at),
    updatedAt: new Date(run.updated_at),
    pendingWait: run.pending_wait ? waitSnapshot(run.pending_wait) : null,
    ...given({
      attemptNumber: run.attempt_number,
      output: run.output,
      error: run.error && failure(run.error),
      sdkVersion: run.sdk_version,
      cliVersion: run.cli_version,
      isolation: run.isolation,
      forkedFrom: run.forked_from && {
        runId: run.forked_from.run_id,
        waitId: run.forked_from.wait_id,
      },
      startedAt: date(run.started_at),
      finishedAt: date(run.finished_at),
    }),
    isQueued: run.status === "queued",
    isRunning: run.status === "running",
    isWaiting: run.status === "waiting",
    isTerminal: !live.includes(run.status),
    isSuccess: run.status === "succeeded",
    isFailed: run.status === "failed",
    isCancelled: run.status === "cancelled",
    isExpired: run.status === "expired",
  };
}
