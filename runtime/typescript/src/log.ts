// ctx.log and logger: an entry of the run's events and the same as a line of its output.
import { failureOf, inspected } from "./failure.ts";
import type { Channel } from "./channel.ts";
import { LEVEL } from "./messages.ts";
import { fit } from "./text.ts";

export type Level = keyof typeof LEVEL;

const messageLimit = 65_536;
const attributesLimit = 32_768;

function isPlain(value: unknown): value is Record<string, unknown> {
  if (value === null || typeof value !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** JSON of the attributes, or undefined when they cannot be recorded as such. */
function attributesOf(values: readonly unknown[]): string | undefined {
  if (values.length !== 2 || typeof values[0] !== "string" || !isPlain(values[1])) return undefined;
  try {
    const json = JSON.stringify(values[1]);
    return Buffer.byteLength(json) <= attributesLimit ? json : undefined;
  } catch {
    return undefined;
  }
}

function worded(value: unknown): string {
  if (typeof value === "string") return value;
  return value instanceof Error ? failureOf(value).stack || inspected(value) : inspected(value);
}

export function makeLog(channel: Channel): (level: Level, values: readonly unknown[]) => void {
  return (level, values) => {
    const attributes = attributesOf(values);
    const words = attributes === undefined ? values : values.slice(0, 1);
    const message = fit(words.map(worded).join(" "), messageLimit);
    channel.send("A_LOG", { level: LEVEL[level], message, attributes, atMs: Date.now() });
    const output = level === "error" ? process.stderr : process.stdout;
    output.write(`${level} ${message.replaceAll(/\r?\n/g, "\\n")}\n`);
  };
}
