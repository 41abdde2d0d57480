// The task's module: imported when its run starts, or ahead of that in a process that stands by.
import { pathToFileURL } from "node:url";
import { taskRoot } from "./places.ts";

export type Module = Record<string, unknown>;

/* Only of a module whose import was observed to be the same whenever it happens. */
let ahead: { readonly path: string; readonly module: Module } | undefined;

function imported(path: string): Promise<Module> {
  return import(pathToFileURL(`${taskRoot()}/${path}`).href) as Promise<Module>;
}

export async function loadAhead(path: string): Promise<void> {
  ahead = { path, module: await imported(path) };
}

/** By its path below the task's directory. */
export async function load(path: string): Promise<Module> {
  return ahead?.path === path ? ahead.module : await imported(path);
}
