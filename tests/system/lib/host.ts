// What Helmr has on this host: processes, memory, and whatever it could leave behind.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";

const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
const output = (program: string, ...args: string[]): string[] =>
  lines(execFileSync(program, args, { encoding: "utf8" }));

function processText(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return ""; // It ended meanwhile.
  }
}

export const commandOf = (pid: number): string[] =>
  processText(String(pid), "cmdline").split("\0").slice(0, -1);

const pids = (): string[] => readdirSync("/proc").filter((name) => /^\d+$/.test(name));

const isLive = (pid: string): boolean => !/^State:\s+Z/m.test(processText(pid, "status"));

export function childrenOf(parent: number): number[] {
  return pids()
    .filter((pid) => /^PPid:\s+(\d+)/m.exec(processText(pid, "status"))?.[1] === String(parent))
    .map(Number);
}

/** The processes that `helmr up` runs, by their command. */
export function partsOf(up: number): { server: number; worker: number } {
  const find = (command: string): number => {
    const found = childrenOf(up).find((pid) => commandOf(pid).includes(command));
    if (found === undefined) throw new Error(`helmr up has no ${command}`);
    return found;
  };
  return { server: find("server"), worker: find("worker") };
}

/** The most memory the process ever had, in MiB. */
export function peakMemory(pid: number): number {
  const found = /^VmHWM:\s+(\d+) kB/m.exec(processText(String(pid), "status"));
  if (!found) throw new Error(`process ${pid} is gone`);
  return Number(found[1]) / 1024;
}

/** The word by which everything of one work directory is named on the host. */
export const tagOf = (workDir: string): string => readFileSync(`${workDir}/lock`, "utf8").slice(0, 8);

const macOf = (tag: string): string => `02:${(tag.match(/../g) as string[]).join(":")}:`;

const cgroupRoots = (): string[] =>
  ["", ...readdirSync("/sys/fs/cgroup")].map((name) => `/sys/fs/cgroup/${name}/helmr`);

/* One row a kind of thing; each lists what is left of a worker. */
const kinds: Record<string, (workDir: string, tag: string) => string[]> = {
  process: (workDir, tag) =>
    pids()
      .filter((pid) => isLive(pid) && Number(pid) !== process.pid)
      .map((pid) => `${pid} ${commandOf(Number(pid)).join(" ")}`)
      .filter((text) => text.includes(workDir) || text.includes(` ${tag}`)),
  mount: (workDir, tag) =>
    lines(readFileSync("/proc/self/mountinfo", "utf8")).filter(
      (line) => line.includes(`${workDir}/`) || line.includes(`/run/helmr/${tag}`),
    ),
  "network namespace": (_workDir, tag) =>
    existsSync(`/run/helmr/${tag}`) ? readdirSync(`/run/helmr/${tag}`) : [],
  link: (_workDir, tag) =>
    output("ip", "-o", "link", "show").filter((line) => line.includes(macOf(tag))),
  "nft table": (_workDir, tag) =>
    output("nft", "list", "tables").filter((line) => line.includes(tag)),
  cgroup: (_workDir, tag) =>
    cgroupRoots()
      .map((root) => `${root}/${tag}`)
      .filter((path) => existsSync(path)),
  instance: (workDir) => {
    const folder = `${workDir}/instances`;
    return existsSync(folder) ? readdirSync(folder).filter((name) => isFolder(folder, name)) : [];
  },
};

const isFolder = (folder: string, name: string): boolean =>
  statSync(`${folder}/${name}`, { throwIfNoEntry: false })?.isDirectory() ?? false;

export const leftoverKinds = Object.keys(kinds);

/* Files of work that has not ended; a kind of its own, because a run has none. */
const unfinished = (workDir: string): string[] =>
  [`${workDir}/tmp`, `${workDir}/oci/tmp`]
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => `unfinished file: ${folder}/${name}`))
    .filter((found) => !found.endsWith(`${workDir}/tmp/empty`));

/** Everything of a worker that is still on the host; of the data directory's when not named. */
export function leftovers(dataDir: string, workDir = `${dataDir}/worker`): string[] {
  const tag = tagOf(workDir);
  const found = Object.entries(kinds).flatMap(([kind, list]) =>
    list(workDir, tag).map((one) => `${kind}: ${one}`),
  );
  return [...found, ...unfinished(workDir)];
}
