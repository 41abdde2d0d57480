// Evaluates a project: strips its types, imports its config and every task file, and makes the
// manifest.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { registerResolution, resolveIn } from "../hooks.ts";
import { installedDependencies, taskRoot, useTaskRoot } from "../places.ts";
import { definitionOf, shared } from "../sdk.ts";
import type { DefinitionRegistry, TaskDefinition } from "../sdk.ts";
import { Fault, faultOf } from "./fault.ts";
import type { SyntaxFault } from "./fault.ts";
import { manifest } from "./manifest.ts";
import type { FoundTask } from "./manifest.ts";
import { readConfig, readDependencies, taskFiles } from "./project.ts";
import { stripProject, syntaxFault } from "./strip.ts";
import { tree } from "./tree.ts";

export interface IndexOptions {
  /** The unpacked project, with its node_modules if it has any. */
  readonly source: string;
  /** Where the stripped tree goes; becomes /opt/helmr/task. */
  readonly output: string;
}

/** A file whose types could not be stripped is refused when, and only when, it is imported. */
function refuseFaulty(faults: ReadonlyMap<string, SyntaxFault>): void {
  registerHooks({
    load(url, context, next) {
      const fault = url.startsWith("file:") ? faults.get(fileURLToPath(url)) : undefined;
      if (fault) throw fault;
      return next(url, context);
    },
  });
}

const checkedFiles = 100;

/** What Node says of a file's syntax; by its name a .ts file would not be a plain module. */
function complaint(path: string): string {
  const isModule = /\.m?ts$/.test(path);
  const { stderr } = isModule
    ? spawnSync(process.execPath, ["--check", "--input-type=module", "-"], {
        input: readFileSync(path),
      })
    : spawnSync(process.execPath, ["--check", path]);
  return stderr.toString();
}

/** Where a module is broken is told only to the one who runs Node with --check on it. */
function brokenFile(first: string): SyntaxFault | undefined {
  const modules = [...tree(taskRoot())]
    .map(({ path }) => path)
    .filter((path) => /(?<!\.d)\.[cm]?[jt]s$/.test(path));
  for (const file of new Set([first, ...modules].slice(0, checkedFiles))) {
    const stderr = complaint(`${taskRoot()}/${file}`);
    const said = /^SyntaxError: (.*)$/m.exec(stderr)?.[1];
    if (said !== undefined) return syntaxFault(file, said, stderr, false);
  }
  return undefined;
}

async function importTasks(file: string): Promise<FoundTask[]> {
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(`${taskRoot()}/${file}`).href)) as typeof module;
  } catch (error) {
    const isPlaced = /:\d+$/.test(((error as Error)?.stack ?? "").split("\n", 1)[0] as string);
    const placed = error instanceof SyntaxError && !isPlaced ? brokenFile(file) : undefined;
    throw faultOf("task_invalid", file, placed ?? error);
  }
  const found: FoundTask[] = [];
  for (const [exportName, value] of Object.entries(module)) {
    const definition = definitionOf<TaskDefinition>(value, "Task");
    if (definition === undefined) continue;
    if (exportName === "default")
      throw new Fault(
        "task_invalid",
        `${file} exports task "${definition.id}" as default; ` +
          `export it by name: export const … = task({…})`,
        { file },
      );
    found.push({ file, exportName, definition });
  }
  return found;
}

/** The same object exported twice counts once; the same id on two objects is a mistake. */
function unique(tasks: readonly FoundTask[]): FoundTask[] {
  const byId = new Map<string, FoundTask>();
  for (const task of tasks) {
    const { id } = task.definition;
    const first = byId.get(id);
    if (first === undefined) byId.set(id, task);
    else if (first.definition !== task.definition)
      throw new Fault(
        "duplicate_task_id",
        `task id "${id}" is used twice: ${first.file} (${first.exportName}) ` +
          `and ${task.file} (${task.exportName}); give one of them another id`,
        { file: task.file },
      );
  }
  return [...byId.values()];
}

function refuseBrokered({ file, definition }: FoundTask): void {
  const brokered = definition.secrets.find((secret) => secret.broker !== undefined);
  if (brokered)
    throw new Fault(
      "task_invalid",
      `${file}: task "${definition.id}" asks for secret ${brokered.name} to be brokered, ` +
        `which this platform cannot do yet; remove "broker"`,
      { file },
    );
}

export async function index(options: IndexOptions): Promise<object> {
  const dependencies = readDependencies(options.source);
  useTaskRoot(options.output);
  const faults = stripProject(options.source, options.output);
  resolveIn([options.source, installedDependencies]);
  registerResolution();
  refuseFaulty(faults);
  const registry: DefinitionRegistry = { queues: [], streams: [] };
  shared<DefinitionRegistry>("DefinitionRegistry").value = registry;

  const config = await readConfig(taskRoot());
  const found: FoundTask[] = [];
  for (const file of taskFiles(taskRoot(), config)) found.push(...(await importTasks(file)));
  const tasks = unique(found);
  if (tasks.length === 0)
    throw new Fault(
      "task_invalid",
      `no task was found in ${config.dirs.join(", ")}; ` +
        `export one by name: export const … = task({…})`,
    );
  tasks.forEach(refuseBrokered);
  return manifest({
    root: options.source,
    name: config.project,
    dependencies,
    tasks,
    queues: registry.queues,
    streams: registry.streams,
  });
}
