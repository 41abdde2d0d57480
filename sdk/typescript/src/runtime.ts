import { shared } from "./brand.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** What the adapter puts in place before it loads a task. */
export interface RunRuntime {
  log(level: LogLevel, values: readonly unknown[]): void;
}

const slot = shared<RunRuntime>("runRuntime");

export function runRuntime(caller: string): RunRuntime {
  if (slot.value === undefined) throw new Error(`${caller} can only be used inside a run`);
  return slot.value;
}
