// A Helmr of a test's own: a server and its workers on an empty data directory, with settings
// that the shared one does not have, and with nobody else's work on it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Between } from "./between.ts";
import { patience } from "./engine.ts";
import { leftovers } from "./host.ts";
import { Installation } from "./installation.ts";
import type { Place } from "./installation.ts";
import type { Ordinary } from "./ordinary.ts";
import { Part } from "./part.ts";
import type { Scope } from "./scope.ts";

const binary = process.env.HELMR as string;

/** Waits until something holds, for what gives no event. */
export async function until(what: string, holds: () => unknown): Promise<void> {
  for (const deadline = Date.now() + patience(120_000); !(await holds()); await sleep(20))
    assert.ok(Date.now() < deadline, `waited for too long: ${what}`);
}

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

/** Once the server takes requests. */
export const ready = (url: string): Promise<void> =>
  until("a ready server", () => answers(`${url}/readyz`));

export async function ownerSession(url: string): Promise<string> {
  const login = await fetch(`${url}/api/auth/dev/login`, { method: "POST" });
  const cookie = login.headers.get("set-cookie")?.split(";")[0] ?? "";
  return cookie.slice(cookie.indexOf("=") + 1);
}

const scopes = ["runs:create", "runs:read", "runs:manage", "tasks:deploy", "secrets:write"].concat(
  ["create", "read", "complete", "cancel"].map((what) => `tokens:${what}`),
  ["session-streams:read", "session-input:send", "session-output:append"],
  ["lifecycle:manage", "files:read", "files:write", "versions:read"].map((what) => `workspace-${what}`),
  ["create", "read", "manage"].flatMap((what) => [`workspace-exec:${what}`, `workspace-pty:${what}`]),
);

export async function makeKey(url: string, session: string): Promise<string> {
  const answer = await fetch(`${url}/api/api-keys`, {
    method: "POST",
    headers: { authorization: `Bearer ${session}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "own", permissions: [{ scopes }] }),
  });
  const made = (await answer.json()) as { raw_key?: string };
  assert.ok(made.raw_key, JSON.stringify(made));
  return made.raw_key;
}

/** The base images made for these tests, as links in a worker's directory. */
export function giveBaseImages(workDir: string): void {
  execFileSync("tools/lend_images.sh", [`${process.env.SYSTEM_IMAGE_CACHE}/worker`, workDir]);
}

export interface OwnOptions {
  /** Settings of server and workers. */
  readonly env?: Record<string, string>;
  /** One with the default settings when left out. */
  readonly workers?: readonly WorkerOptions[];
  /** Who stands between the workers and the server. */
  readonly between?: Between;
}

export interface WorkerOptions {
  /** Of its folder in the data directory, and its identity. */
  readonly name?: string;
  readonly env?: Record<string, string>;
  /** Without any image in its store. */
  readonly isBare?: boolean;
  /** Whose process it is, and in which network namespace; root's in the host's when left out. */
  readonly user?: Ordinary;
  readonly netns?: string;
}

export class Worker extends Part {
  readonly name: string;
  readonly workDir: string;
  starts = 0;

  constructor(options: WorkerOptions, dataDir: string, common: NodeJS.ProcessEnv) {
    const { name = "worker", env = {}, isBare = false, user, netns } = options;
    const workDir = `${dataDir}/${name}`;
    const own = { HELMR_WORKER_WORK_DIR: workDir, HELMR_WORKER_RESOURCE_ID: name, ...env };
    const images = { HELMR_WORKER_IMAGES_DIR: `${workDir}/images` };
    const all = user ? { ...user.env(workDir, common), ...images } : common;
    const [file, ...words] = user ? [...user.prefix(netns), binary] : [binary];
    super(file as string, [...words, "worker"], { ...all, ...own }, `${dataDir}/own.log`);
    this.name = name;
    this.workDir = workDir;
    if (user) user.folder(workDir);
    if (!isBare && user) user.giveBaseImage(workDir);
    if (!isBare && !user) giveBaseImages(workDir);
  }

  override start(): void {
    this.starts++;
    super.start();
  }
}

export class Own extends Installation {
  readonly server: Part;
  readonly workers: readonly Worker[];
  readonly session: string;

  constructor(place: Place, server: Part, workers: readonly Worker[], session: string) {
    super(place);
    this.server = server;
    this.workers = workers;
    this.session = session;
  }

  get log(): string {
    return readFileSync(`${this.place.dataDir}/own.log`, "utf8");
  }

  /** Once every worker takes work, each as often as it was started. */
  async active(): Promise<void> {
    const starts = this.workers.reduce((sum, worker) => sum + worker.starts, 0);
    await until("active workers", () => {
      assert.ok(this.workers.every((worker) => worker.isRunning), this.log);
      return this.log.split('"event":"worker active"').length > starts;
    });
  }

  /** Ends everything in order. */
  async stop(): Promise<void> {
    for (const part of [...this.workers, this.server])
      assert.equal(await part.end("SIGTERM"), 0, this.log);
  }

  /** Sandboxes and whatever else of work in progress there is now. */
  leftovers(): string[] {
    return this.workers.flatMap(({ workDir }) => leftovers(this.place.dataDir, workDir));
  }

  /** Every worker's image store is whole. */
  override verified = async (): Promise<void> => {
    for (const { workDir } of this.workers)
      await this.printed(["image", "verify"], { env: { HELMR_WORKER_WORK_DIR: workDir } });
  };

  /** Stops, and nothing is left but whole image stores. What a killed worker had open there goes
   * when the store is opened next. */
  async stopClean(): Promise<void> {
    await this.stop();
    await this.verified();
    assert.deepEqual(this.leftovers(), []);
  }
}

/** Workers of other users reach the server, too. */
function shareSocket(socket: string): void {
  chmodSync(dirname(socket), 0o711);
  chmodSync(socket, 0o666);
}

/** Lives as long as the test or the suite that `t` belongs to. */
export async function startOwn(t: Scope, options: OwnOptions = {}): Promise<Own> {
  const dataDir = mkdtempSync(`${tmpdir()}/helmr-own-`);
  const hasUsers = options.workers?.some(({ user }) => user);
  if (hasUsers) chmodSync(dataDir, 0o711);
  const url = `http://127.0.0.1:${await freePort()}`;
  const socket = `${dataDir}/run/server.sock`;
  const common = {
    ...process.env,
    HELMR_DATA_DIR: dataDir,
    HELMR_CONTROL_URL: options.between?.stand(`${dataDir}/between.sock`, socket) ?? `unix:${socket}`,
    HELMR_MASTER_KEY: randomBytes(32).toString("base64"),
    HELMR_WORKER_BOOTSTRAP_TOKEN: randomBytes(32).toString("base64url"),
    HELMR_CHECKPOINT_ENCRYPTION_KEY: randomBytes(32).toString("base64"),
    HELMR_WORKER_STANDBYS: "0",
    ...options.env,
  };
  const serverArgs = ["server", "--data-dir", dataDir, "--addr", new URL(url).host];
  const server = new Part(binary, serverArgs, common, `${dataDir}/own.log`);
  const workers = (options.workers ?? [{}]).map((one) => new Worker(one, dataDir, common));
  t.after(async () => {
    for (const part of [...workers, server]) if (part.isRunning) await part.end("SIGTERM");
    options.between?.leave();
    rmSync(dataDir, { recursive: true, force: true });
  });
  server.start();
  await until("a ready server", () => {
    assert.ok(server.isRunning, readFileSync(`${dataDir}/own.log`, "utf8"));
    return answers(`${url}/readyz`);
  });
  if (hasUsers) shareSocket(socket);
  workers.forEach((worker) => worker.start());
  const session = await ownerSession(url);
  const apiKey = await makeKey(url, session);
  const env = { HELMR_DATA_DIR: dataDir, HELMR_API_KEY: apiKey, HELMR_CONFIG_DIR: `${dataDir}/config`, ...options.env };
  const own = new Own({ binary, dataDir, url, apiKey, env }, server, workers, session);
  await own.active();
  return own;
}
