// Commands and terminals in a workspace that is mounted.
import { Agent, request as httpRequest } from "node:http";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { dockerExec, startDockerBox } from "../docker.ts";
import { atEnd, folder, has, note, run } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import { runsc } from "../runsc.ts";
import { type Stack, startUp, url } from "../stack.ts";

const times = 200;
const anchorTimes = 30;

const agent = new Agent({ keepAlive: true });

interface Reply {
  status: number;
  body: string;
}

/** On a kept connection, with as little of a client around it as there can be. */
function call(stack: Stack, method: string, path: string, body?: object): Promise<Reply> {
  const text = body ? JSON.stringify(body) : "";
  const headers: Record<string, string> = { authorization: `Bearer ${stack.key}` };
  if (body) headers["content-type"] = "application/json";
  if (!body) headers.accept = "text/event-stream";
  return new Promise((done, fail) => {
    const sent = httpRequest(`${url(stack)}${path}`, { method, headers, agent }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on("data", (piece: Buffer) => pieces.push(piece));
      answer.on("end", () =>
        done({ status: answer.statusCode ?? 0, body: Buffer.concat(pieces).toString() }),
      );
    });
    sent.on("error", fail);
    sent.end(text);
  });
}

async function post<T>(stack: Stack, path: string, body: object): Promise<T> {
  const { status, body: text } = await call(stack, "POST", path, body);
  if (status !== 201) throw new Error(`${path}: ${status} ${text}`);
  return JSON.parse(text) as T;
}

async function workspace(stack: Stack): Promise<string> {
  await startUp(stack);
  const made = await post<{ workspace: { id: string } }>(stack, "/api/workspaces", { sandbox_id: "bench" });
  const path = `/api/workspaces/${made.workspace.id}`;
  atEnd(() => call(stack, "POST", `${path}/stop`, {}).catch(() => undefined));
  return path;
}

/** Until the stream says how it ended. */
async function exec(stack: Stack, path: string): Promise<void> {
  const { exec } = await post<{ exec: { id: string } }>(stack, `${path}/execs`, { command: ["true"] });
  const { body } = await call(stack, "GET", `${path}/execs/${exec.id}/stdout`);
  if (!body.includes("workspace_stream_terminal")) throw new Error(`no end: ${body}`);
}

async function timed(step: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await step();
  return performance.now() - begun;
}

/** A container of the same files that only waits; its name, or nothing without runc. */
async function runcBox(): Promise<string | undefined> {
  const files = await runsc();
  if (!files || !(await has("runc"))) {
    note("skipped: runc_exec, runc or runsc is not installed");
    return undefined;
  }
  const id = `helmr-bench-${process.pid}`;
  const bundle = join(folder, "runc-bundle");
  mkdirSync(bundle);
  const config = {
    ociVersion: "1.0.2",
    process: {
      user: { uid: 0, gid: 0 },
      args: ["sleep", "infinity"],
      env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
      cwd: "/",
    },
    root: { path: files.rootfs },
    mounts: [{ destination: "/proc", type: "proc", source: "proc" }],
    linux: { namespaces: ["pid", "ipc", "uts", "mount"].map((type) => ({ type })) },
  };
  writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
  await run("runc", ["--root", join(folder, "runc"), "run", "--detach", "--bundle", bundle, id], {
    stdio: "ignore",
  });
  atEnd(() => run("runc", ["--root", join(folder, "runc"), "delete", "--force", id]));
  return id;
}

export async function execRtt(stack: Stack): Promise<void> {
  const path = await workspace(stack);
  for (let i = 0; i < 20; i++) await exec(stack, path);
  const box = await runcBox();
  const docker = await startDockerBox((await runsc())?.rootfs);
  const [ours, theirs, dockers]: number[][] = [[], [], []];
  for (let i = 0; i < times; i++) {
    ours?.push(await timed(() => exec(stack, path)));
    if (i % Math.ceil(times / anchorTimes)) continue;
    if (box)
      theirs?.push(await timed(() => run("runc", ["--root", join(folder, "runc"), "exec", box, "true"])));
    if (docker) dockers?.push(await timed(() => dockerExec(docker)));
  }
  const p50 = median(ours ?? []);
  if (box) figure("exec_rtt", p50, "ms", { name: "runc_exec", value: median(theirs ?? []) });
  else figure("exec_rtt", p50, "ms");
  if (docker) figure("exec_rtt", p50, "ms", { name: "docker_exec", value: median(dockers ?? []) });
  figure("exec_rtt_p99", quantile(ours ?? [], 0.99), "ms");
}

/** A terminal as its viewer sees it: what came, and a wait for more. */
class Viewer {
  readonly #socket: WebSocket;
  #came = () => {};
  count = 0;

  constructor(stack: Stack, path: string) {
    const options = {
      protocols: ["helmr.pty.v1"],
      headers: { authorization: `Bearer ${stack.key}` },
    };
    // Node's takes headers in the place of protocols.
    this.#socket = new WebSocket(`${url(stack).replace("http", "ws")}${path}`, options as never);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onmessage = ({ data }) => {
      if (!(data instanceof ArrayBuffer)) return;
      this.count += data.byteLength;
      this.#came();
    };
  }

  opened(): Promise<void> {
    return new Promise((done, fail) => {
      this.#socket.onopen = () => done();
      this.#socket.onerror = () => fail(new Error("the terminal could not be attached"));
    });
  }

  more(): Promise<void> {
    return new Promise((done) => (this.#came = done));
  }

  async typed(): Promise<void> {
    const shown = this.more();
    this.#socket.send(new TextEncoder().encode("x"));
    await shown;
  }

  close(): void {
    this.#socket.close();
  }
}

export async function ptyEcho(stack: Stack): Promise<void> {
  const path = await workspace(stack);
  const { pty } = await post<{ pty: { id: string } }>(stack, `${path}/pty`, { cols: 80, rows: 24 });
  const viewer = new Viewer(stack, `${path}/pty/${pty.id}/attach?cursor=0`);
  await viewer.opened();
  while (viewer.count === 0) await viewer.more(); // the shell's prompt
  await new Promise((done) => setTimeout(done, 500));
  const ours: number[] = [];
  for (let i = 0; i < times; i++) ours.push(await timed(() => viewer.typed()));
  viewer.close();
  const raw = await run(resolve(stack.build, "bench/anchor"), ["echo", String(times)]);
  const { p50_ms } = JSON.parse(raw) as { p50_ms: number };
  figure("pty_echo", median(ours), "ms", { name: "raw_pty", value: p50_ms });
  figure("pty_echo_p99", quantile(ours, 0.99), "ms");
}
