import { brand } from "./brand.js";
import { list, record, refuse, text } from "./check.js";
import { name } from "./names.js";
import { sourcePath } from "./paths.js";

export interface Config {
  readonly project: string;
  readonly dirs: readonly string[];
  readonly ignorePatterns: readonly string[];
}

const defaultIgnorePatterns = ["**/*.test.*", "**/*.spec.*", "**/_*.*"];

/** The default export of a project's helmr.config.ts. */
export function defineConfig(config: {
  project: string;
  dirs: string[];
  ignorePatterns?: string[];
}): Config {
  const given = record("config", config, ["project", "dirs", "ignorePatterns"]);
  const dirs = list("config.dirs", given.dirs);
  if (dirs.length === 0) refuse("config.dirs", "must name at least one directory");
  const definition: Config = {
    project: name("config.project", given.project, "slug"),
    dirs: dirs.map((dir, i) => sourcePath(`config.dirs[${i}]`, dir)),
    ignorePatterns: list(
      "config.ignorePatterns",
      given.ignorePatterns ?? defaultIgnorePatterns,
    ).map((glob, i) => text(`config.ignorePatterns[${i}]`, glob)),
  };
  return Object.freeze(brand(definition, "Config", definition));
}
