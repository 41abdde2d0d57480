// What a task is given. The adapter makes the object; the types are the contract.
import type { DurationInput } from "./duration.js";
import type { EmittedEvent } from "./emit.js";
import { durationRequest, humanRequest, instantRequest, waitNow } from "./waits.js";
import type { HumanWaitOptions } from "./waits.js";

export interface TaskLog {
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
}

export interface TaskWait {
  /** Asks a person. Gives the answer, null when there is none in it; throws when nobody answers. */
  human<T = unknown>(options?: HumanWaitOptions<T>): Promise<T>;
  for(length: DurationInput): Promise<void>;
  /** A past instant is over at once. */
  until(instant: Date | string): Promise<void>;
}

/** The adapter gives it to the task as `ctx.wait`. */
export const taskWait: TaskWait = Object.freeze({
  human: <T>(options: HumanWaitOptions<T> = {}) =>
    waitNow<T>("ctx.wait.human", humanRequest("options", options)),
  for: (length: DurationInput) =>
    waitNow<void>("ctx.wait.for", durationRequest("duration", length)),
  until: (instant: Date | string) =>
    waitNow<void>("ctx.wait.until", instantRequest("instant", instant)),
});

/** What is named here may be another after a resume or in a fork: ask each time. */
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
  /** The run stops here, may be parked, and goes on where it was. One wait at a time. */
  readonly wait: TaskWait;
  /** An event `emit.<type>` of the run: a type of 1 to 256 bytes, a list of at most 256 KiB. */
  emit(event: EmittedEvent): Promise<void>;
  readonly log: TaskLog;
}
