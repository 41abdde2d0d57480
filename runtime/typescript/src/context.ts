import type { TaskContext } from "./sdk.ts";
import type { Level } from "./log.ts";
import type { AStart } from "./messages.ts";

/** What a task is given, and the handle by which the agent stops it. */
export interface Running {
  readonly context: TaskContext;
  cancel(reason: string): void;
}

export function makeContext(
  start: AStart,
  log: (level: Level, values: readonly unknown[]) => void,
): Running {
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
        return start.runId ?? "";
      },
      get attemptId() {
        return start.attemptId ?? "";
      },
      get attemptNumber() {
        return start.attempt ?? 1;
      },
      get runLeaseId() {
        return start.leaseId ?? "";
      },
      get snapshotVersion() {
        return 0;
      },
    }),
    task: Object.freeze({ id: start.taskId ?? "" }),
    session: Object.freeze({ id: start.sessionId ?? "" }),
    deployment: Object.freeze({
      id: start.deploymentId ?? "",
      version: start.deploymentVersion ?? "",
    }),
    workspace: Object.freeze({ id: start.workspaceId ?? "", path: start.workspacePath ?? "" }),
    log: Object.freeze({
      info: (...values: unknown[]) => log("info", values),
      warn: (...values: unknown[]) => log("warn", values),
      error: (...values: unknown[]) => log("error", values),
    }),
  };
  return {
    context: Object.freeze(context),
    cancel: (reason) => {
      clearInterval(waiting);
      aborter().abort(Object.assign(new Error(reason), { name: "AbortError" }));
    },
  };
}
