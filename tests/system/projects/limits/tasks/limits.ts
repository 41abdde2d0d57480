// Takes as much as it can get, of memory, of processes and of disk.
import { image, sandbox, task } from "@helmr/sdk";
import { spawn } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";

const tight = sandbox("tight")
  .image(image("base").from("node:24-bookworm-slim"))
  .resources({ cpu: 1, memory: "512Mi", disk: "256Mi" });

export const hogs = task({
  id: "hogs",
  sandbox: tight,
  run: async ({ mib }: { mib: number }, _ctx) => {
    const held: Buffer[] = [];
    console.log("hogging");
    while (held.length < mib) held.push(Buffer.alloc(1 << 20, held.length + 1));
    return { mib: held.length };
  },
});

export const forks = task({
  id: "forks",
  sandbox: tight,
  run: async ({ processes }: { processes: number }, _ctx) => {
    // One shell that forks until it is refused. None of its children gets further than opening.
    const script = `mkfifo /tmp/never
      for ((n = 1; n <= ${processes}; n++)); do (read < /tmp/never) & echo $n; done`;
    const child = spawn("bash", ["-c", script], { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    let complained = "";
    child.stdout.on("data", (bytes: Buffer) => (said += bytes));
    child.stderr.on("data", (bytes: Buffer) => {
      complained += bytes;
      if (complained.includes("fork")) child.kill("SIGKILL");
    });
    await new Promise((resolve) => child.on("exit", resolve));
    return { started: said.split("\n").length - 1, isRefused: complained.includes("fork") };
  },
});

export const fills = task({
  id: "fills",
  sandbox: tight,
  run: async ({ mib, path }: { mib: number; path: string }, _ctx) => {
    const block = Buffer.alloc(1 << 20, 7);
    const fd = openSync(path, "w");
    let written = 0;
    try {
      for (; written < mib; written++) writeSync(fd, block);
      return { written, error: "" };
    } catch (error) {
      return { written, error: (error as NodeJS.ErrnoException).code };
    } finally {
      closeSync(fd);
    }
  },
});
