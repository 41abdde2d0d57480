// Server and worker as processes of their own, to be killed and started again.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { binary, dataDir, url } from "./helmr.ts";

const patienceMs = 240_000;

const environment = {
  ...process.env,
  HELMR_DATA_DIR: dataDir,
  HELMR_CONTROL_URL: `unix:${dataDir}/run/server.sock`,
  HELMR_WORKER_BOOTSTRAP_TOKEN_FILE: `${dataDir}/keys/bootstrap`,
};

export class Part {
  readonly #args: string[];
  #child: ChildProcess | undefined;

  constructor(args: string[]) {
    this.#args = args;
  }

  start(): void {
    const log = openSync(`${dataDir}/up.log`, "a");
    this.#child = spawn(binary, this.#args, { env: environment, stdio: ["ignore", log, log] });
    closeSync(log);
  }

  async end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    const child = this.#child as ChildProcess;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
    return child.exitCode;
  }
}

export const server = new Part(["server", "--data-dir", dataDir, "--addr", new URL(url).host]);
export const worker = new Part(["worker"]);

async function isReady(): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    return false;
  }
}

export async function ready(): Promise<void> {
  const until = Date.now() + patienceMs;
  while (!(await isReady())) {
    assert.ok(Date.now() < until, "the server does not become ready");
    await sleep(20);
  }
}
