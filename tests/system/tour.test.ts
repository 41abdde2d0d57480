// `helmr up --seed`: an installation that has something of everything to look at, made as anybody
// would make it, and only once.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, suite, test } from "node:test";
import { engine } from "./lib/engine.ts";
import { freePort, giveBaseImages, until } from "./lib/own.ts";

const data = mkdtempSync(`${tmpdir()}/helmr-tour-`);
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const env = { ...process.env, HELMR_CONFIG_DIR: `${data}/config`, HELMR_API_URL: url };
let up: ChildProcess | undefined;

async function start(): Promise<void> {
  let told = "";
  const child = spawn(
    process.env.HELMR as string,
    ["up", "--data-dir", data, "--addr", `127.0.0.1:${port}`, "--seed"],
    { env, stdio: ["ignore", "pipe", "ignore"] },
  );
  up = child;
  child.stdout.setEncoding("utf8").on("data", (text: string) => (told += text));
  await until("the examples are there", () => {
    assert.equal(child.exitCode, null, told);
    return /^seed: /m.test(told);
  });
}

async function stop(): Promise<void> {
  const child = up;
  if (!child || child.exitCode !== null) return;
  const gone = new Promise((ended) => child.once("exit", ended));
  child.kill("SIGTERM");
  await gone;
}

async function owner(path: string): Promise<any> {
  const login = await fetch(`${url}/api/auth/dev/login`, { method: "POST" });
  const cookie = login.headers.get("set-cookie")?.split(";")[0] ?? "";
  const answer = await fetch(`${url}/api${path}`, { headers: { cookie } });
  assert.equal(answer.status, 200, await answer.clone().text());
  return answer.json();
}

const described = (run: any): string =>
  [run.status, run.error?.layer, run.error?.failure_kind, run.pending_wait?.suspension]
    .filter((word) => word)
    .join(" ");

const wanted = [
  "cancelled",
  "expired",
  "failed guest_runtime out_of_memory",
  "failed parked_wait wait_timeout",
  "failed task_process payload_invalid",
  "failed task_process task_failed",
  "failed timeout max_duration_exceeded",
  "queued",
  "running",
  "succeeded",
  "succeeded",
  "waiting hot",
  engine.saves ? "waiting parked" : "waiting hot",
];

suite("an installation with examples", () => {
  after(async () => {
    await stop();
    rmSync(data, { recursive: true, force: true });
  });

  test("has a run in every status, a talk, a schedule and tokens", async () => {
    mkdirSync(`${data}/worker`, { recursive: true });
    giveBaseImages(`${data}/worker`);
    await start();
    let found: string[] = [];
    await until("every example is where it should be", async () => {
      found = (await owner("/runs?status=all")).runs.map(described).sort();
      return JSON.stringify(found) === JSON.stringify(wanted);
    }).catch((error) => assert.fail(`${error.message}: ${found.join(", ")}`));
    const { deployments } = await owner("/deployments");
    assert.deepEqual(deployments.map((each: any) => each.status).sort(), ["deployed", "failed"]);
    const path = "/sessions/by-external-id/outputs/answers?external_id=seed-talk";
    let said: string[] = [];
    await until("the talk has an answer", async () => {
      said = (await owner(path)).records.map((record: any) => record.data.text);
      return said.length > 1;
    });
    assert.deepEqual(said, ["Ask me something.", "You said: Hello"]);
    assert.equal((await owner("/schedules")).schedules.length, 1);
    const states = (await owner("/tokens")).tokens.map((each: any) => each.status);
    assert.deepEqual([...new Set(states)].sort(), ["completed", "expired", "pending"]);
    assert.equal((await owner("/api-keys?filter=active")).api_keys.length, 0, "a key is left");
  });

  test("has nothing twice after another start", async () => {
    const before = (await owner("/runs?status=all")).runs.map((run: any) => run.id);
    await stop();
    await start();
    assert.deepEqual((await owner("/runs?status=all")).runs.map((run: any) => run.id), before);
    assert.equal((await owner("/deployments")).deployments.length, 2);
    assert.equal((await owner("/schedules")).schedules.length, 1);
  });
});
