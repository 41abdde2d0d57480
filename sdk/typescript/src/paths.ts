import { refuse, text } from "./check.js";

const reservedForMounts = ["/dev", "/opt/helmr", "/proc", "/run", "/sys", "/tmp"];
const reservedForFiles = ["/dev", "/opt/helmr", "/proc", "/sys"];
const neverInArchive = /^(?:node_modules|\.git|\.helmr|\.next|\.env|\.env\..*)$/;

function segments(field: string, path: string): string[] {
  const kept = path.split("/").filter((part) => part !== "" && part !== ".");
  if (kept.includes("..")) refuse(field, `must not contain "..": ${JSON.stringify(path)}`);
  return kept;
}

function refuseReserved(field: string, path: string, reserved: readonly string[]): void {
  for (const prefix of reserved)
    if (path === prefix || path.startsWith(`${prefix}/`))
      refuse(field, `must not be ${path}: ${prefix} is reserved for the platform`);
}

/** Normalised and absolute. */
export function mountPath(field: string, value: unknown): string {
  const path = text(field, value);
  if (!path.startsWith("/")) refuse(field, `must be absolute: ${JSON.stringify(path)}`);
  const normal = `/${segments(field, path).join("/")}`;
  if (normal === "/") refuse(field, "must not be /");
  refuseReserved(field, normal, reservedForMounts);
  return normal;
}

/** Of an image's working directory: relative to the one before it unless absolute. */
export function workdirPath(field: string, value: unknown): string {
  const path = text(field, value);
  const parts = segments(field, path).join("/");
  if (!path.startsWith("/")) return parts === "" ? "." : parts;
  refuseReserved(field, `/${parts}`, reservedForFiles);
  return `/${parts}`;
}

/** Of a secret: below the workspace mount unless absolute. */
export function secretPath(field: string, value: unknown): string {
  const path = text(field, value);
  if (path !== path.trim()) refuse(field, "must not have white space around it");
  const parts = segments(field, path);
  if (parts.length === 0) refuse(field, `must not be ${JSON.stringify(path)}`);
  const normal = `${path.startsWith("/") ? "/" : ""}${parts.join("/")}`;
  refuseReserved(field, normal, reservedForFiles);
  return normal;
}

/** Of a mount in one build step. */
export function stepMountPath(field: string, value: unknown): string {
  const path = text(field, value);
  if (!path.startsWith("/")) refuse(field, `must be absolute: ${JSON.stringify(path)}`);
  const normal = `/${segments(field, path).join("/")}`;
  if (normal === "/") refuse(field, "must not be /");
  refuseReserved(field, normal, reservedForFiles);
  return normal;
}

/** Inside the project's archive, relative to its root; "." is the root itself. */
export function sourcePath(field: string, value: unknown): string {
  const path = text(field, value);
  if (path.startsWith("/"))
    refuse(field, `must be relative to the project: ${JSON.stringify(path)}`);
  const parts = segments(field, path);
  for (const part of parts)
    if (neverInArchive.test(part)) refuse(field, `must not use ${part}, which is never uploaded`);
  return parts.length === 0 ? "." : parts.join("/");
}
