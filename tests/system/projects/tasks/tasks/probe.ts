// Looks around inside a sandbox as the test asks it to.
import { task } from "@helmr/sdk";
import { spawn, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { connect, createServer } from "node:net";
import { small as sandbox } from "./_sandbox";

const reach = (host: string, port: number): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 2000 });
    socket.on("connect", () => resolve("connected"));
    socket.on("timeout", () => resolve("no answer"));
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });

export const shell = task({
  id: "shell",
  sandbox,
  run: async ({ scripts }: { scripts: Record<string, string> }, _ctx) =>
    Object.fromEntries(
      Object.entries(scripts).map(([name, script]) => {
        const { stdout, stderr } = spawnSync("sh", ["-c", script], { encoding: "utf8" });
        return [name, (stdout + stderr).trim()];
      }),
    ),
});

export const reaches = task({
  id: "reaches",
  sandbox,
  run: async ({ places }: { places: [string, number][] }, _ctx) =>
    Promise.all(places.map(([host, port]) => reach(host, port))),
});

export const fetches = task({
  id: "fetches",
  sandbox,
  run: async ({ url, authorities }: { url: string; authorities?: string }, _ctx) => {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { timeout: 20_000, ...(authorities && { ca: authorities }) };
      get(url, options, resolve).on("error", reject);
    });
    let bytes = 0;
    for await (const chunk of response) bytes += (chunk as Buffer).length;
    return { status: response.statusCode, bytes };
  },
});

/* Has a file, a process and a listening socket until it is cancelled. */
export const holds = task({
  id: "holds",
  sandbox,
  run: async ({ mark }: { mark: string }, ctx) => {
    for (const path of [`/tmp/${mark}`, `/dev/shm/${mark}`, mark, `/${mark}`])
      writeFileSync(path, mark);
    spawn("sh", ["-c", `sleep 1000; : ${mark}`]);
    const server = createServer((socket) => socket.end(mark)).listen(7777, "0.0.0.0");
    await new Promise((resolve) => server.once("listening", resolve));
    console.log("holding");
    await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
    server.close();
    process.exit(0);
  },
});
