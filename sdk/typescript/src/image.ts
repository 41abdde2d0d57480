import { brand, definitionOf } from "./brand.js";
import { list, record, refuse, text } from "./check.js";
import { name } from "./names.js";
import { stepMountPath, workdirPath } from "./paths.js";
import { isCacheRef, isSourceDirRef, isSourceFileRef } from "./source.js";
import type { CacheRef, SourceDirRef, SourceFileRef } from "./source.js";

export interface RunStepOptions {
  cache?: { mountPath: string; cache: CacheRef }[];
  secrets?: { mountPath: string; secret: string }[];
}

export interface ImageBuilder {
  from(ref: string): ImageBuilder;
  run(argv: string[], options?: RunStepOptions): ImageBuilder;
  copy(dest: string, src: SourceFileRef | SourceDirRef | ImageBuilder): ImageBuilder;
  copyFrom(dest: string, image: ImageBuilder, srcPath: string): ImageBuilder;
  workdir(path: string): ImageBuilder;
  env(key: string, value: string): ImageBuilder;
  user(name: string): ImageBuilder;
}

export type ImageStep =
  | { kind: "from"; ref: string }
  | {
      kind: "run";
      argv: readonly string[];
      cache: readonly CacheMount[];
      secrets: readonly SecretMount[];
    }
  | {
      kind: "copy";
      dest: string;
      source: { file: string } | { directory: string; ignore: readonly string[] };
    }
  | { kind: "copy"; dest: string; image: ImageDefinition }
  | { kind: "copyFrom"; dest: string; image: ImageDefinition; path: string }
  | { kind: "workdir"; path: string }
  | { kind: "env"; key: string; value: string }
  | { kind: "user"; name: string };

export interface CacheMount {
  readonly mountPath: string;
  readonly cache: string;
}

export interface SecretMount {
  readonly mountPath: string;
  readonly secret: string;
}

export interface ImageDefinition {
  readonly id: string;
  readonly steps: readonly ImageStep[];
}

const maxSteps = 1000;
const maxArguments = 1024;
const maxArgumentBytes = 65_536;
const maxMounts = 64;

export const imageDefinition = (value: unknown): ImageDefinition | undefined =>
  definitionOf<ImageDefinition>(value, "ImageBuilder");

function imageArgument(field: string, value: unknown): ImageDefinition {
  return imageDefinition(value) ?? refuse(field, "must be an image");
}

function command(value: unknown): string[] {
  const argv = list("run argv", value);
  if (argv.length === 0 || argv.length > maxArguments)
    refuse("run argv", `must have 1 to ${maxArguments} entries`);
  return argv.map((argument, i) => {
    const checked = text(`run argv[${i}]`, argument);
    if (new TextEncoder().encode(checked).length > maxArgumentBytes)
      refuse(`run argv[${i}]`, `is over ${maxArgumentBytes} bytes`);
    return checked;
  });
}

function cacheMount(entry: unknown, i: number): CacheMount {
  const field = `run cache[${i}]`;
  const mount = record(field, entry, ["mountPath", "cache"]);
  if (!isCacheRef(mount.cache)) refuse(`${field}.cache`, "must be made by cache()");
  return { mountPath: stepMountPath(`${field}.mountPath`, mount.mountPath), cache: mount.cache.id };
}

function secretMount(entry: unknown, i: number): SecretMount {
  const field = `run secrets[${i}]`;
  const mount = record(field, entry, ["mountPath", "secret"]);
  return {
    mountPath: stepMountPath(`${field}.mountPath`, mount.mountPath),
    secret: name(`${field}.secret`, mount.secret, "secret"),
  };
}

function checkMounts(field: string, mounts: readonly { readonly mountPath: string }[]): void {
  if (mounts.length > maxMounts) refuse(field, `must have at most ${maxMounts} entries`);
  const seen = new Set<string>();
  for (const { mountPath } of mounts) {
    if (seen.has(mountPath)) refuse(field, `must not mount ${mountPath} twice`);
    seen.add(mountPath);
  }
}

function runStep(argv: unknown, options: unknown): ImageStep {
  const { cache, secrets } = record("run options", options, ["cache", "secrets"]);
  const step = {
    kind: "run" as const,
    argv: command(argv),
    cache: list("run cache", cache ?? []).map(cacheMount),
    secrets: list("run secrets", secrets ?? []).map(secretMount),
  };
  checkMounts("run cache", step.cache);
  checkMounts("run secrets", step.secrets);
  if (step.cache.length > 0 && step.secrets.length > 0)
    refuse(
      "run options",
      "must not use cache and secrets in one step: a cache could keep the secret",
    );
  return step;
}

function copyStep(dest: string, src: unknown): ImageStep {
  const step = { kind: "copy" as const, dest: text("copy dest", dest) };
  if (isSourceFileRef(src)) return { ...step, source: { file: src.path } };
  if (isSourceDirRef(src)) return { ...step, source: { directory: src.path, ignore: src.ignore } };
  const definition = imageDefinition(src);
  if (definition) return { ...step, image: definition };
  refuse("copy src", "must be source.file(), source.directory() or an image");
}

function environment(key: string, value: unknown): ImageStep {
  if (typeof value !== "string") refuse(`env ${key}`, "must be a string");
  if (value.includes("\0")) refuse(`env ${key}`, "must not contain NUL");
  return { kind: "env", key: name("env key", key, "variable"), value };
}

function reference(ref: string): ImageStep {
  if (!/^[\x21-\x7e]{1,512}$/.test(text("from ref", ref)))
    refuse(
      "from ref",
      `must be an image reference such as "node:24-bookworm-slim": ${JSON.stringify(ref)}`,
    );
  return { kind: "from", ref };
}

function build(id: string, steps: readonly ImageStep[]): ImageBuilder {
  const then = (step: ImageStep): ImageBuilder => {
    if ((step.kind === "from") !== (steps.length === 0))
      refuse(
        `image ${id}: ${step.kind}`,
        steps.length === 0 ? "must come after from" : "must be the first step",
      );
    if (steps.length === maxSteps) refuse(`image ${id}`, `must have at most ${maxSteps} steps`);
    return build(id, Object.freeze([...steps, Object.freeze(step)]));
  };
  const builder: ImageBuilder = {
    from: (ref) => then(reference(ref)),
    run: (argv, options = {}) => then(runStep(argv, options)),
    copy: (dest, src) => then(copyStep(dest, src)),
    copyFrom: (dest, from, srcPath) =>
      then({
        kind: "copyFrom",
        dest: text("copyFrom dest", dest),
        image: imageArgument("copyFrom image", from),
        path: text("copyFrom srcPath", srcPath),
      }),
    workdir: (path) => then({ kind: "workdir", path: workdirPath("workdir path", path) }),
    env: (key, value) => then(environment(key, value)),
    user: (user) => then({ kind: "user", name: name("user name", user, "account") }),
  };
  const definition: ImageDefinition = { id, steps };
  return Object.freeze(brand(builder, "ImageBuilder", Object.freeze(definition)));
}

/** An image, described step by step and built when the project is deployed. */
export function image(id: string): ImageBuilder {
  return build(name("image id", id, "id"), Object.freeze([]));
}
