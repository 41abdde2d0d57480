// Whether an image can run its tasks: Node is new enough, every dependency is there, every module
// loads.
import { pathToFileURL } from "node:url";
import { DependencyMissingError, holds, registerResolution, resolveIn } from "../hooks.ts";
import { resolutionChain, taskRoot } from "../places.ts";
import { definitionOf } from "../sdk.ts";
import { Fault, faultOf } from "./fault.ts";

export interface CheckOptions {
  readonly tasks: readonly { readonly module: string; readonly export: string }[];
  readonly dependencies?: readonly string[];
  /** The image's WORKDIR. */
  readonly workdir?: string;
}

const oldest = [22, 18] as const;

function checkNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > oldest[0] || (major === oldest[0] && minor >= oldest[1])) return;
  throw new Fault(
    "node_too_old",
    `the image has Node ${process.versions.node}; tasks need ${oldest.join(".")} or newer: ` +
      `start from an image such as node:24-bookworm-slim`,
  );
}

function checkDependencies(names: readonly string[], chain: readonly string[]): void {
  const missing = names.find((name) => !chain.some((directory) => holds(directory, name)));
  if (missing === undefined) return;
  const places = chain.map((directory) => `${directory}/node_modules`).join(", ");
  throw new Fault(
    "dependency_missing",
    `"${missing}" of package.json is in none of ${places}: install it in the image`,
    { file: "package.json" },
  );
}

async function checkTask(module: string, exportName: string): Promise<void> {
  let loaded: Record<string, unknown>;
  try {
    loaded = (await import(pathToFileURL(`${taskRoot()}/${module}`).href)) as typeof loaded;
  } catch (error) {
    const isMissing = error instanceof DependencyMissingError;
    throw faultOf(isMissing ? "dependency_missing" : "task_load_failed", module, error);
  }
  if (definitionOf(loaded[exportName], "Task") === undefined)
    throw new Fault("task_load_failed", `${module} does not export a task as "${exportName}"`, {
      file: module,
    });
}

export async function check(mount: string | undefined, options: CheckOptions): Promise<object> {
  checkNode();
  const chain = resolutionChain(mount, options.workdir);
  checkDependencies(options.dependencies ?? [], chain);
  resolveIn(chain);
  registerResolution();
  for (const task of options.tasks) await checkTask(task.module, task.export);
  return { node: process.versions.node, tasks: options.tasks };
}
