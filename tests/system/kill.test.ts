// Kills the server, the worker or both without warning, again and again, while runs are going.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { binary, client, dataDir, deployed, projects, runEvents, url } from "./lib/helmr.ts";
import { leftovers } from "./lib/host.ts";

const rounds = Number(process.env.KILL_ROUNDS ?? 12);
const runsPerRound = 3;
const longestLifeMs = 3000;
const patienceMs = 240_000;

const environment = {
  ...process.env,
  HELMR_DATA_DIR: dataDir,
  HELMR_CONTROL_URL: `unix:${dataDir}/run/server.sock`,
  HELMR_WORKER_BOOTSTRAP_TOKEN_FILE: `${dataDir}/keys/bootstrap`,
};

class Part {
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

const server = new Part(["server", "--data-dir", dataDir, "--addr", new URL(url).host]);
const worker = new Part(["worker"]);

async function isReady(): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    return false;
  }
}

async function ready(): Promise<void> {
  const until = Date.now() + patienceMs;
  while (!(await isReady())) {
    assert.ok(Date.now() < until, "the server does not become ready");
    await sleep(20);
  }
}

/** Tried until it is acknowledged; the key makes one run of all tries. */
async function start(deploymentId: string, idempotencyKey: string, ms: number): Promise<string> {
  for (;;) {
    try {
      const options = { deploymentId, idempotencyKey };
      return (await client.tasks.trigger("naps", { ms }, options)).id;
    } catch {
      await ready();
    }
  }
}

const victims: Part[][] = [[worker], [server], [server, worker]];
const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;

let deployment = "";

before(async () => {
  server.start();
  await ready();
  worker.start();
  deployment = await deployed(`${projects}tasks`);
});

after(async () => {
  await worker.end("SIGTERM");
  await server.end("SIGTERM");
});

const ids: string[] = [];

test(`${rounds} kills at random moments lose no run and finish none twice`, async () => {
  for (let round = 0; round < rounds; round++) {
    const starts = Array.from({ length: runsPerRound }, (_, at) =>
      start(deployment, `kill-${process.pid}-${round}-${at}`, Math.random() * 1500),
    );
    await sleep(Math.random() * longestLifeMs);
    const killed = pick(victims);
    await Promise.all(killed.map((part) => part.end("SIGKILL")));
    killed.forEach((part) => part.start());
    ids.push(...(await Promise.all(starts)));
  }
  assert.equal(new Set(ids).size, rounds * runsPerRound);
  await ready();
  for (const id of ids) {
    const ended = await client.runs.wait(id, { timeoutMs: patienceMs });
    assert.equal(ended.status, "succeeded", `${id}: ${JSON.stringify(ended.error)}`);
  }
});

const isTerminal = /^run\.(completed|failed|cancelled|expired|dead_lettered)$/;

test("every run that was killed under has one terminal event and one result", async () => {
  for (const id of ids) {
    const events = await runEvents(id);
    assert.equal(events.filter(({ kind }) => isTerminal.test(kind)).length, 1);
    assert.match(events.at(-1)?.kind ?? "", isTerminal);
    const leases = events.filter(({ kind }) => kind === "run.lease_started");
    const { output } = await client.runs.retrieve(id);
    assert.equal((output as { lease: string }).lease, leases.at(-1)?.attributes.lease_id);
  }
});

test("after all the kills a stop is clean and leaves nothing", async () => {
  assert.equal(await worker.end("SIGTERM"), 0);
  assert.equal(await server.end("SIGTERM"), 0);
  assert.deepEqual(leftovers(dataDir), []);
});
