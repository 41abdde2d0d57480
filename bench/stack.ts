// The product under test: one data directory, first with `helmr up`, later with the server alone.
import { execFileSync, type ChildProcess } from "node:child_process";
import { copyFileSync, existsSync, openSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { folder, freePort, note, run, start, stop, until } from "./host.ts";

const base = "node:24-bookworm-slim";

export const data = join(folder, "data");
export const slots = 4;

export interface Stack {
  build: string;
  helmr: string;
  port: number;
  key: string;
  child: ChildProcess | undefined;
  /** The command and the settings of the child. */
  running: string;
}

export interface Run {
  id: string;
  session_id: string;
  status: string;
  output?: unknown;
  error?: unknown;
}

export interface RunEvent {
  kind: string;
  at: string;
  attributes: Record<string, unknown>;
}

const environment = () => ({
  ...process.env,
  HELMR_CONFIG_DIR: join(folder, "config"),
  HELMR_DATA_DIR: data,
  HELMR_LOG_LEVEL: "warn",
  HELMR_WORKER_EXECUTION_SLOTS: String(slots),
  HELMR_WORKER_CAPACITY_VCPUS: String(2 * slots),
});

export async function prepare(build: string): Promise<Stack> {
  const helmr = resolve(build, "helmr");
  const cache = resolve(dirname(build), "image-cache");
  note(`preparing ${base}`);
  await run(helmr, ["image", "bootstrap", "--data-dir", cache, base]);
  execFileSync("tools/lend_images.sh", [join(cache, "worker"), join(data, "worker")]);
  return { build, helmr, port: await freePort(), key: "", child: undefined, running: "" };
}

type Settings = Record<string, string>;

async function launch(stack: Stack, command: string, settings: Settings = {}): Promise<void> {
  await halt(stack);
  note(`starting helmr ${command}`);
  stack.running = JSON.stringify([command, settings]);
  const log = openSync(join(folder, `${command}.log`), "a");
  const address = `127.0.0.1:${stack.port}`;
  stack.child = start(stack.helmr, [command, "--data-dir", data, "--addr", address], {
    env: { ...environment(), ...settings },
    stdio: ["ignore", log, log],
  });
  try {
    await until(`helmr ${command}`, async () => {
      if (stack.child?.exitCode !== null) throw new Error("it ended");
      return (await fetch(`${url(stack)}/readyz`)).ok;
    });
  } catch (error) {
    note(readFileSync(join(folder, `${command}.log`), "utf8").slice(-2000));
    throw error;
  }
}

export async function halt(stack: Stack): Promise<void> {
  if (stack.child) await stop(stack.child);
  stack.child = undefined;
  stack.running = "";
}

export const url = (stack: Stack) => `http://127.0.0.1:${stack.port}`;

const scopes = [
  ...["runs:create", "runs:read", "tasks:deploy", "secrets:write", "tokens:complete"],
  ...["session-streams:read", "session-input:send", "session-output:append"],
  ...["workspace-lifecycle:manage", "workspace-files:read", "workspace-files:write"],
  ...["create", "read", "manage"].flatMap((what) => [`workspace-exec:${what}`, `workspace-pty:${what}`]),
];

/** A key that may do what the benchmarks do, by way of the local owner's session. */
async function makeKey(stack: Stack): Promise<string> {
  const login = await fetch(`${url(stack)}/api/auth/dev/login`, { method: "POST" });
  const cookie = login.headers.get("set-cookie")?.split(";")[0] ?? "";
  const session = cookie.slice(cookie.indexOf("=") + 1);
  const answer = await fetch(`${url(stack)}/api/api-keys`, {
    method: "POST",
    headers: { authorization: `Bearer ${session}`, "content-type": "application/json" },
    body: JSON.stringify({
      name: "bench",
      permissions: [{ scopes }],
    }),
  });
  const made = (await answer.json()) as { raw_key?: string };
  if (!made.raw_key) throw new Error(`no key: ${JSON.stringify(made)}`);
  return made.raw_key;
}

/** The environment of a deploy. */
export const deployment = (stack: Stack) => ({
  ...environment(),
  HELMR_API_URL: url(stack),
  HELMR_API_KEY: stack.key,
});

/** The whole product, with the tasks of project/ deployed. */
export async function startUp(stack: Stack, settings: Settings = {}): Promise<void> {
  if (stack.running === JSON.stringify(["up", settings])) return;
  await launch(stack, "up", settings);
  if (stack.key) return;
  stack.key = await makeKey(stack);
  note("deploying bench/project");
  await run(stack.helmr, ["deploy", "bench/project"], { env: deployment(stack) });
}

/** A server that nobody works for: what is created stays queued. */
export async function startServer(stack: Stack): Promise<number> {
  await launch(stack, "server");
  return stack.child?.pid ?? 0;
}

export async function createRun(stack: Stack, task: string, payload?: unknown): Promise<Run> {
  const answer = await fetch(`${url(stack)}/api/runs`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.key}`, "content-type": "application/json" },
    body: JSON.stringify({ task_id: task, payload }),
  });
  if (answer.status !== 201) throw new Error(`POST /api/runs: ${await answer.text()}`);
  return (await answer.json()) as Run;
}

export async function getRun(stack: Stack, id: string): Promise<Run> {
  const answer = await fetch(`${url(stack)}/api/runs/${id}`, {
    headers: { authorization: `Bearer ${stack.key}` },
  });
  return (await answer.json()) as Run;
}

/** The run's history, once it is over: the stream ends with the run. */
export async function awaitRun(stack: Stack, id: string): Promise<RunEvent[]> {
  const answer = await fetch(`${url(stack)}/api/runs/${id}/events`, {
    headers: { authorization: `Bearer ${stack.key}`, accept: "text/event-stream" },
  });
  const text = await answer.text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => JSON.parse(line.slice(5)) as RunEvent);
}

/** A request as bytes, for the clients written in C. */
export function request(stack: Stack, head: string, body = ""): string {
  const length = body ? `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n` : "";
  return (
    `${head}\r\nHost: 127.0.0.1:${stack.port}\r\nAuthorization: Bearer ${stack.key}\r\n` +
    `Accept: ${head.startsWith("GET") ? "text/event-stream" : "*/*"}\r\n${length}\r\n${body}`
  );
}

/** Stops the server; its database as it is then, in a copy of that name for an anchor to write to. */
export async function copyDatabase(stack: Stack, name: string): Promise<string> {
  await halt(stack);
  for (const suffix of ["", "-wal"])
    if (existsSync(join(data, `helmr.db${suffix}`)))
      copyFileSync(join(data, `helmr.db${suffix}`), join(folder, `${name}${suffix}`));
  return join(folder, name);
}
