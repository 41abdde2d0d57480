import { taskEmit, taskWait } from "./sdk.ts";
import type { TaskContext } from "./sdk.ts";
import type { Level } from "./log.ts";
import type { AStart } from "./messages.ts";

/** Who the program is. It is told anew after a resume, and is another in a fork. */
export interface Identity {
  runId: string;
  attempt: number;
  attemptId: string;
  leaseId: string;
  sessionId: string;
  workspaceId: string;
  snapshotVersion: number;
}

/** What a task is given, and the handles by which the agent stops and renames it. */
export interface Running {
  readonly context: TaskContext;
  readonly identity: Identity;
  cancel(reason: string): void;
}

/** As a resume says it; what it does not say stays. */
export function adoptIdentity(identity: Identity, json: string, resumeVersion: bigint): void {
  const told = JSON.parse(json) as Record<string, string | number | undefined>;
  const text = (name: string, before: string): string => String(told[name] ?? before);
  identity.runId = text("run_id", identity.runId);
  identity.attempt = Number(told.attempt ?? identity.attempt);
  identity.attemptId = text("attempt_id", identity.attemptId);
  identity.leaseId = text("lease_id", identity.leaseId);
  identity.sessionId = text("session_id", identity.sessionId);
  identity.workspaceId = text("workspace_id", identity.workspaceId);
  identity.snapshotVersion = Number(told.snapshot_version ?? resumeVersion);
}

function identityOf(start: AStart): Identity {
  return {
    runId: start.runId ?? "",
    attempt: start.attempt ?? 1,
    attemptId: start.attemptId ?? "",
    leaseId: start.leaseId ?? "",
    sessionId: start.sessionId ?? "",
    workspaceId: start.workspaceId ?? "",
    snapshotVersion: 0,
  };
}

export function makeContext(
  start: AStart,
  log: (level: Level, values: readonly unknown[]) => void,
): Running {
  const identity = identityOf(start);
  const { workspacePath = "" } = start;
  /* Made when first asked for: most tasks never look at their signal. */
  let controller: AbortController | undefined;
  let waiting: ReturnType<typeof setInterval> | undefined;
  const aborter = (): AbortController => (controller ??= new AbortController());
  const context: TaskContext = {
    get signal() {
      /* Whoever asks may wait for nothing else, and that is something to wait for. */
      waiting ??= setInterval(() => undefined, 2 ** 30);
      return aborter().signal;
    },
    run: Object.freeze({
      get id() {
        return identity.runId;
      },
      get attemptId() {
        return identity.attemptId;
      },
      get attemptNumber() {
        return identity.attempt;
      },
      get runLeaseId() {
        return identity.leaseId;
      },
      get snapshotVersion() {
        return identity.snapshotVersion;
      },
    }),
    task: Object.freeze({ id: start.taskId ?? "" }),
    session: Object.freeze({
      get id() {
        return identity.sessionId;
      },
    }),
    deployment: Object.freeze({
      id: start.deploymentId ?? "",
      version: start.deploymentVersion ?? "",
    }),
    workspace: Object.freeze({
      get id() {
        return identity.workspaceId;
      },
      path: workspacePath,
    }),
    wait: taskWait,
    emit: taskEmit,
    log: Object.freeze({
      info: (...values: unknown[]) => log("info", values),
      warn: (...values: unknown[]) => log("warn", values),
      error: (...values: unknown[]) => log("error", values),
    }),
  };
  return {
    context: Object.freeze(context),
    identity,
    cancel: (reason) => {
      clearInterval(waiting);
      aborter().abort(Object.assign(new Error(reason), { name: "AbortError" }));
    },
  };
}
