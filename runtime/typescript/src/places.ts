// Where the platform's files are: beside the adapter, which in a guest is /opt/helmr/adapter.

import { pathToFileURL } from "node:url";

export const adapterVersion = "0.1.0";

export const home = __dirname.slice(0, __dirname.lastIndexOf("/"));

export const sdkEntry = `${home}/sdk/dist/index.js`;
export const installedDependencies = `${home}/deps`;

/** The deployed source; another directory only while a project is indexed. */
let root = `${home}/task`;
let rootUrl = `${pathToFileURL(root).href}/`;

export function taskRoot(): string {
  return root;
}

/** As a module's URL begins, with the slash. */
export function taskRootUrl(): string {
  return rootUrl;
}

export function useTaskRoot(directory: string): void {
  root = directory;
  rootUrl = `${pathToFileURL(root).href}/`;
}

/** Where a bare import of task code is looked for, in order. */
export function resolutionChain(mount: string | undefined, workdir: string | undefined): string[] {
  const chain = [mount, "/opt/helmr-task", workdir, installedDependencies];
  return [
    ...new Set(chain.filter((directory) => directory !== undefined && directory !== "")),
  ] as string[];
}
