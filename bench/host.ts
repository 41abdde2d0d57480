// The machine under the benchmarks: child processes that never outlive this one, a temporary
// directory that goes with it, and what the kernel says about a process.
import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const undo: (() => unknown)[] = [];

/** Runs at the end, last one first, whatever happens. */
export function atEnd(step: () => unknown): void {
  undo.push(step);
}

export async function cleanUp(): Promise<void> {
  for (let step = undo.pop(); step; step = undo.pop()) {
    try {
      await step();
    } catch (error) {
      note(`clean-up: ${String(error)}`);
    }
  }
}

export const folder = mkdtempSync(join(tmpdir(), "helmr-bench."));
atEnd(() => rmSync(folder, { recursive: true, force: true }));

export function note(text: string): void {
  process.stderr.write(`# ${text}\n`);
}

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export function start(file: string, args: string[], options: SpawnOptions = {}): ChildProcess {
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  child.on("error", () => {});
  atEnd(() => stop(child));
  return child;
}

export async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  if (!child.pid || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
  child.kill(signal);
  await ended;
  clearTimeout(timer);
}

/** Runs a program to its end and gives what it printed; anything but exit 0 throws. */
export function run(
  file: string,
  args: string[],
  options: SpawnOptions & { input?: string } = {},
): Promise<string> {
  const { input, ...rest } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: ["pipe", "pipe", "pipe"], ...rest });
    let out = "";
    let errors = "";
    child.stdout?.on("data", (bytes: Buffer) => (out += bytes.toString()));
    child.stderr?.on("data", (bytes: Buffer) => (errors += bytes.toString()));
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0
        ? resolve(out)
        : reject(new Error(`${file} ${args.join(" ")}: ${errors.trim().slice(-2000)}`)),
    );
    child.stdin?.end(input);
  });
}

export async function has(program: string): Promise<boolean> {
  try {
    await run("sh", ["-c", `command -v ${program}`]);
    return true;
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** Waits until a condition holds, for what gives no event. */
export async function until(what: string, holds: () => unknown, ms = 60_000): Promise<void> {
  const deadline = Date.now() + ms;
  for (;;) {
    try {
      if (await holds()) return;
    } catch {
      // Not yet.
    }
    if (Date.now() > deadline) throw new Error(`${what}: not within ${ms / 1000} s`);
    await sleep(20);
  }
}

function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
}

/** CPU seconds of a process and its children that live. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields[11]) + Number(fields[12]);
  return childrenOf(pid).reduce((sum, child) => sum + cpuSeconds(child), ticks / 100);
}

/** The processes below one that run a program, as they are now. */
export function running(pid: number, program: string): number[] {
  try {
    const is = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[0]?.endsWith(program);
    return [...(is ? [pid] : []), ...childrenOf(pid).flatMap((child) => running(child, program))];
  } catch {
    return []; // It ended meanwhile.
  }
}

/** Memory of a process, where what it shares is divided among those who have it. */
export function proportionalBytes(pid: number): number {
  const line = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"));
  return Number(line?.[1]) * 1024;
}

export function residentBytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1]) * 1024;
}
