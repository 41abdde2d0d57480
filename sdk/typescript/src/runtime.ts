import { shared } from "./brand.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** How a wait ended; the same value whether the run was parked meanwhile or not. */
export type Settlement =
  | { readonly condition: "completed"; readonly data?: unknown }
  | { readonly condition: "expired" }
  | { readonly condition: "cancelled"; readonly reason?: string }
  | { readonly condition: "failed"; readonly message: string };

/** Who the program is now; another in a fork. */
export interface RuntimeIdentity {
  readonly runId: string;
  readonly attemptNumber: number;
}

/** What the adapter puts in place before it loads a task. */
export interface RunRuntime {
  identity(): RuntimeIdentity;
  log(level: LogLevel, values: readonly unknown[]): void;
  /** Asks the server for something; rejects when it refuses. */
  operate(kind: string, body: object): Promise<unknown>;
  /** How far the program has read its inputs, by stream and correlation id. */
  readonly positions: Map<string, number>;
  /** The run's one blocking stop; a second one meanwhile rejects with ConcurrentWaitError. */
  wait(body: object): Promise<Settlement>;
}

const slot = shared<RunRuntime>("runRuntime");

export const isInsideRun = (): boolean => slot.value !== undefined;

/** Undefined outside a run. */
export const runtimeIdentity = (): RuntimeIdentity | undefined => slot.value?.identity();

export function runRuntime(caller: string): RunRuntime {
  if (slot.value === undefined) throw new Error(`${caller} can only be used inside a run`);
  return slot.value;
}
