// Whether an image can run its tasks: Node is new enough, every dependency is there, every module
// loads. What a module does while it loads decides whether it may be loaded ahead of its runs.
import { pathToFileURL } from "node:url";
import { DependencyMissingError, holds, registerResolution, resolveIn } from "../hooks.ts";
import { resolutionChain, taskRoot } from "../places.ts";
import { definitionOf } from "../sdk.ts";
import { fit } from "../text.ts";
import { Fault, faultOf } from "./fault.ts";
import { Observer } from "./observe.ts";

interface Task {
  readonly id?: string;
  readonly module: string;
  readonly export: string;
}

export interface CheckOptions {
  readonly tasks: readonly Task[];
  readonly dependencies?: readonly string[];
  /** The image's WORKDIR. */
  readonly workdir?: string;
}

const oldest = [22, 18] as const;
const reasonLimit = 500;
const reasonsTold = 3;

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

const urlOf = (module: string): string => pathToFileURL(`${taskRoot()}/${module}`).href;

async function checkTask(observer: Observer, module: string, exportName: string): Promise<void> {
  let loaded: Record<string, unknown>;
  try {
    loaded = await observer.import(urlOf(module));
  } catch (error) {
    const isMissing = error instanceof DependencyMissingError;
    throw faultOf(isMissing ? "dependency_missing" : "task_load_failed", module, error);
  }
  if (definitionOf(loaded[exportName], "Task") === undefined)
    throw new Fault("task_load_failed", `${module} does not export a task as "${exportName}"`, {
      file: module,
    });
}

/** The task with its verdict, as the deployment records it. */
function verdict(observer: Observer, task: Task): object {
  const reasons = observer.reasons(urlOf(task.module));
  if (reasons.length === 0) return { ...task, preload: true };
  const more = reasons.length > reasonsTold ? `; and ${reasons.length - reasonsTold} more` : "";
  const told = reasons.slice(0, reasonsTold).join("; ") + more;
  return { ...task, preload: false, preload_reason: fit(told, reasonLimit) };
}

export async function check(mount: string | undefined, options: CheckOptions): Promise<object> {
  checkNode();
  const chain = resolutionChain(mount, options.workdir);
  checkDependencies(options.dependencies ?? [], chain);
  resolveIn(chain);
  registerResolution();
  const observer = Observer.begin();
  for (const task of options.tasks) await checkTask(observer, task.module, task.export);
  /* Only now: what one does when it is loaded counts for all that share it. */
  const tasks = options.tasks.map((task) => verdict(observer, task));
  return { node: process.versions.node, tasks };
}
