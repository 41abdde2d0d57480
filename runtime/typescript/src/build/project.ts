// The parts of a project that are read before any task: package.json, the config, the list of
// files.
import { existsSync, readFileSync, statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { definitionOf } from "../sdk.ts";
import type { Config } from "../sdk.ts";
import { Fault, faultOf } from "./fault.ts";
import { globMatcher } from "./glob.ts";
import { tree } from "./tree.ts";

const configNames = ["helmr.config.ts", "helmr.config.mts", "helmr.config.js", "helmr.config.mjs"];
const isModule = /(?<!\.d)\.[cm]?[jt]s$/;

/** Names in "dependencies" that must be found when a task runs. */
export function readDependencies(root: string): string[] {
  const file = "package.json";
  const invalid = (message: string): Fault => new Fault("config_invalid", message, { file });
  let text: string;
  try {
    text = readFileSync(`${root}/${file}`, "utf8");
  } catch {
    throw invalid(
      "there is no package.json: add one next to the config, " +
        'at least {"private": true, "type": "module"}',
    );
  }
  let parsed: { dependencies?: unknown; optionalDependencies?: unknown } | null;
  try {
    parsed = JSON.parse(text) as typeof parsed;
  } catch (error) {
    throw invalid(`package.json is not JSON: ${(error as Error).message}`);
  }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed))
    throw invalid("package.json must be a JSON object");
  const optional = Object.keys(parsed.optionalDependencies ?? {});
  return Object.keys(parsed.dependencies ?? {}).filter(
    (name) => name !== "@helmr/sdk" && !optional.includes(name),
  );
}

export async function readConfig(root: string): Promise<Config> {
  const file = configNames.find((name) => existsSync(`${root}/${name}`));
  if (file === undefined)
    throw new Fault(
      "config_invalid",
      "there is no helmr.config.ts: add one that default-exports defineConfig({ project, dirs })",
      { file: "helmr.config.ts" },
    );
  let module: { default?: unknown };
  try {
    module = (await import(pathToFileURL(`${root}/${file}`).href)) as typeof module;
  } catch (error) {
    throw faultOf("config_invalid", file, error);
  }
  const config = definitionOf<Config>(module.default, "Config");
  if (config === undefined)
    throw new Fault(
      "config_invalid",
      `${file} must default-export defineConfig({ project, dirs })`,
      { file },
    );
  return config;
}

/** Task files, relative to the root, in the order they are imported. */
export function taskFiles(root: string, config: Config): string[] {
  const isIgnored = globMatcher(config.ignorePatterns);
  const files = new Set<string>();
  for (const dir of config.dirs) {
    const below = dir === "." ? "" : dir;
    if (!statSync(`${root}/${below}`, { throwIfNoEntry: false })?.isDirectory())
      throw new Fault(
        "config_invalid",
        `config.dirs names ${dir}, which is not a directory of the project`,
      );
    for (const { path, kind } of tree(root, below))
      if (kind === "file" && isModule.test(path) && !isIgnored(path) && !configNames.includes(path))
        files.add(path);
  }
  return [...files].sort();
}
