import { runRuntime } from "./runtime.js";
import type { LogLevel } from "./runtime.js";

const at =
  (level: LogLevel) =>
  (...values: unknown[]): void =>
    runRuntime(`logger.${level}`).log(level, values);

/** Log entries of the run; a string followed by one plain object records it as attributes. */
export const logger = Object.freeze({
  debug: at("debug"),
  info: at("info"),
  warn: at("warn"),
  error: at("error"),
});
