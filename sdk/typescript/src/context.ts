// What a task is given. The adapter makes the object; the types are the contract.

export interface TaskLog {
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

export interface TaskContext {
  /** Aborted when the run is cancelled and when its max duration has passed. */
  readonly signal: AbortSignal;
  readonly run: {
    readonly id: string;
    readonly attemptId: string;
    readonly attemptNumber: number;
    readonly runLeaseId: string;
    readonly snapshotVersion: number;
  };
  readonly task: { readonly id: string };
  readonly session: { readonly id: string };
  readonly deployment: { readonly id: string; readonly version: string };
  /** `path` is the mount path and the directory the task starts in. */
  readonly workspace: { readonly id: string; readonly path: string };
  readonly log: TaskLog;
}
