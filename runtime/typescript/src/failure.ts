// What is reported of a thrown value. Paths read as the author knows them: the deployed source's
// own prefix and the adapter's frames are taken out of stacks.
import { taskRoot, taskRootUrl } from "./places.ts";
import { fit } from "./text.ts";

const limits = { name: 256, message: 16_384, stack: 32_768 };

export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

export function authorText(text: string): string {
  return text.replaceAll(taskRootUrl(), "").replaceAll(`${taskRoot()}/`, "");
}

function authorStack(stack: string): string {
  const lines = stack
    .split("\n")
    .filter((line) => !(line.startsWith("    at ") && line.includes(__filename)));
  return authorText(lines.join("\n"));
}

export function inspected(value: unknown): string {
  const { inspect } = require("node:util") as typeof import("node:util");
  return inspect(value, { breakLength: Infinity, compact: true });
}

export function failureOf(thrown: unknown): Failure {
  const isError =
    thrown instanceof Error || Object.prototype.toString.call(thrown) === "[object Error]";
  if (!isError) {
    const message = typeof thrown === "string" ? thrown : inspected(thrown);
    return { name: "Error", message: fit(message, limits.message), stack: "" };
  }
  const error = thrown as Error;
  return {
    name: fit(String(error.name || "Error"), limits.name),
    message: fit(authorText(String(error.message)), limits.message),
    stack: fit(authorStack(String(error.stack ?? "")), limits.stack),
  };
}

/** As Node would have printed it, with its causes. */
export function printed(thrown: unknown): string {
  const { inspect } = require("node:util") as typeof import("node:util");
  return authorStack(inspect(thrown));
}

/** The first place in the author's own files that the error's stack names. */
export function authorPlace(thrown: unknown): { file?: string; line?: number } {
  const stack = (thrown as { stack?: unknown } | null)?.stack;
  if (typeof stack !== "string") return {};
  const match = stack.match(
    new RegExp(`${taskRoot().replaceAll(/[.+*?^$()[\]{}|\\]/g, "\\$&")}/([^\\n:()]+):(\\d+)`),
  );
  return match ? { file: match[1] as string, line: Number(match[2]) } : {};
}
