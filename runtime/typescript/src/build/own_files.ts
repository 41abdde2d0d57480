// What belongs to the deployment or the platform: equal in every process that runs a task of it.
import { isAbsolute, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { home, taskRoot } from "../places.ts";

/** A path as functions of Node take it; undefined for what is none, such as a descriptor. */
export function pathOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (value instanceof URL) return value.protocol === "file:" ? fileURLToPath(value) : undefined;
  return Buffer.isBuffer(value) ? value.toString() : undefined;
}

/** Also of packages that an image brings: a run cannot have put something there before it starts. */
export function inOwnFiles(value: unknown): boolean {
  const path = pathOf(value);
  if (path === undefined || !isAbsolute(path)) return false;
  const clean = normalize(path);
  return (
    clean.startsWith(`${home}/`) ||
    clean.startsWith(`${taskRoot()}/`) ||
    clean.includes("/node_modules/")
  );
}
