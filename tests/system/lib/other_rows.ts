// Rows of the checklist that need no project of the documents.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import type { TestContext } from "node:test";
import { api, binary, deploy, deployed, examples, helmr, printed, shared } from "./helmr.ts";
import { command } from "./installation.ts";
import { project } from "./project.ts";
import { bound, key } from "./review.ts";
import { uuid } from "./review_rows.ts";

export async function startsAMachine(t: TestContext): Promise<void> {
  const guest = `${process.env.B ?? "build"}/guest-image`;
  if (!existsSync(`${guest}/kernel`)) return t.skip("what microVMs start from is not made: make vm");
  const { code, stdout, stderr } = await command("tools/smoke.py", [guest]);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /a microVM was started with(out)? KVM/);
}

const withSecret = `import { image, sandbox, task } from "@helmr/sdk";
export const mine = task({
  id: "my-task",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  secrets: { OPENAI_API_KEY: { env: "OPENAI_API_KEY" } },
  run: async () => "fine",
});
`;

export async function runsWhatIsDeployed(t: TestContext): Promise<void> {
  const folder = project(t, { "tasks/a.ts": withSecret });
  const start = ["run", "my-task", ...bound];
  await printed(["secret", "set", "OPENAI_API_KEY"], { input: key });
  await printed(["deploy", `${examples}hello-world`]);
  const next = withSecret.replace("my-task", "my-next-task");
  const ahead = project(t, { "tasks/a.ts": next });
  await printed(["deploy", ahead, "--skip-promotion"]);
  const early = await helmr(["run", "my-next-task", ...bound]);
  assert.equal(early.code, 1);
  assert.match(early.stderr, /\(task_not_deployed\)/);
  await printed(["deploy", folder]);
  const id = await printed(start);
  assert.match(id, uuid);
  await printed(["run", "wait", id.trim()]);
  await printed(["deploy", `${examples}hello-world`]);
  const late = await helmr(start);
  assert.equal(late.code, 1);
  assert.match(late.stderr, /\(task_archived\)/);
}

/* A worker that must not start because of its key. */
export async function needsItsKey(): Promise<void> {
  const folder = mkdtempSync(`${tmpdir()}/helmr-key-`);
  const name = "HELMR_CHECKPOINT_ENCRYPTION_KEY";
  const env = { HELMR_CONTROL_URL: "http://127.0.0.1:9", HELMR_DATA_DIR: folder };
  for (const value of ["", "not base64", Buffer.alloc(31).toString("base64")]) {
    const { code, stderr } = await command(binary, ["worker"], { env: { ...env, [name]: value } });
    assert.equal(code, 1, stderr);
    assert.ok(stderr.includes(name), stderr);
  }
  rmSync(folder, { recursive: true });
}

export async function waitsForAWorker(t: TestContext): Promise<void> {
  const files = { "tasks/a.ts": { sandbox: ".resources({ cpu: 512 })" } };
  const deployment = await deployed(project(t, files));
  const id = (await printed(["run", "a", "--deployment", deployment, "--ttl", "3s"])).trim();
  assert.match(await printed(["show", id]), /^Status: queued \(no_compatible_worker/m);
  assert.match(await printed(["run", "wait", id]), /^run_status: expired$/m);
}

export async function failsToInstall(t: TestContext): Promise<void> {
  const dependencies = { nothing: "file:./nowhere.tgz" };
  const files = { "package.json": JSON.stringify({ private: true, type: "module", dependencies }) };
  const { record } = await deploy(project(t, files));
  assert.deepEqual([record.status, record.error.layer], ["failed", "deployment_build"]);
}

/* Everything that one task can tell of itself, and a file that grows with each run of its session. */
const teller = `import { image, logger, metadata, sandbox, streams, task, timers, tokens } from "@helmr/sdk";
import { appendFileSync, readFileSync } from "node:fs";
streams.input("say");
const progress = streams.output("progress");
export const teller = task({
  id: "teller",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  run: async () => {
    await progress.append({ step: 1 });
    await metadata.set("step", 1);
    await timers.waitFor("100ms").unwrap();
    const { id } = await tokens.create({ tags: ["teller"] });
    logger.info("made a token", { id });
    appendFileSync("turns.txt", "turn\\n");
    return { token: id, turns: readFileSync("turns.txt", "utf8").split("\\n").length - 1 };
  },
});
`;

let told: Promise<any> | undefined;

/* A session of it whose first run is over. */
const toldSession = (t: TestContext): Promise<any> =>
  (told ??= (async () => {
    await printed(["deploy", project(t, { "tasks/a.ts": teller })]);
    return JSON.parse(await printed(["session", "start", "teller", "--wait", "--json"]));
  })());

export async function tellsOfItself(t: TestContext): Promise<void> {
  const { session, run } = await toldSession(t);
  assert.equal(run.status, "succeeded", JSON.stringify(run.error));
  const list = ["session", "stream", "output", "list", session.id, "progress"];
  assert.deepEqual(JSON.parse(await printed(list)).data, { step: 1 });
  assert.equal(await printed(["session", "stream", "list", session.id]), "progress\toutput\t1\nsay\tinput\t0\n");
  assert.match(await printed(["token", "list", "--status", "pending"]), new RegExp(`^${run.output.token}\t`, "m"));
  assert.deepEqual(run.metadata, { step: 1 });
  assert.match(await printed(["logs", run.id]), /made a token/);
  const kinds = (await shared.runEvents(run.id)).map(({ kind }) => kind);
  for (const kind of ["run_wait.created", "run_wait.completed", "run.metadata.updated"])
    assert.ok(kinds.includes(kind), kind);
}

export async function goesOn(t: TestContext): Promise<void> {
  const { session, run } = await toldSession(t);
  const send = ["session", "stream", "input", "send", session.id, "say", "--data-json", '"again"'];
  const [record] = (await printed(send)).trim().split(" ");
  const { current_run_id } = JSON.parse(await printed(["session", "get", session.id, "--json"]));
  assert.notEqual(current_run_id, run.id);
  await printed(["run", "wait", current_run_id]);
  const next = JSON.parse(await printed(["show", current_run_id, "--json"]));
  assert.deepEqual([next.turn_index, next.previous_run_id, next.reason], [1, run.id, "input"]);
  assert.equal(next.cause.record_id, record);
  assert.deepEqual([run.output.turns, next.output.turns], [1, 2]);
}

export async function managesSecretsBlindly(): Promise<void> {
  const key = (await printed(["key", "create", "secrets", "--permission", "secrets:write"])).trim();
  const value = "a value of the checklist";
  const path = "/secrets/CHECKLIST";
  const answers = [
    await api(path, { method: "PUT", key, body: JSON.stringify({ value }) }),
    await api("/secrets", { key }),
    await api(path, { key }),
    await api(path, { method: "DELETE", key }),
  ];
  assert.deepEqual(answers.map(({ status }) => status), [201, 200, 200, 204]);
  assert.ok(!JSON.stringify(answers).includes(value));
}

export async function describesWorkers(): Promise<void> {
  const { workers } = JSON.parse(await printed(["worker", "list", "--json"]));
  const { capabilities } = workers[0];
  for (const name of ["arch", "rootfs_digest", "cni_profile", "vcpus", "memory_mib"])
    assert.ok(name in capabilities, name);
  // The kernel of gVisor is the engine itself.
  assert.ok("kernel_digest" in capabilities || "engine_build" in capabilities);
  assert.ok(capabilities.execution_slots > 0);
}

const brokered = withSecret.replace('{ env: "OPENAI_API_KEY" }', '{ env: "A", broker: [{ host: "a.example" }] }');

export async function refusesBrokers(t: TestContext): Promise<void> {
  const { record } = await deploy(project(t, { "tasks/a.ts": brokered }));
  assert.deepEqual([record.status, record.error?.failure_kind], ["failed", "task_invalid"]);
}

export async function operates(): Promise<void> {
  assert.match(await printed(["worker", "drain", "--timeout", "2m"]), /^state: draining$/m);
  assert.equal((await helmr(["worker", "status"])).code, 1);
  assert.match(await printed(["worker", "drain", "--undo"]), /^state: active$/m);
  assert.match(await printed(["worker", "status"]), /^state: active$/m);
  const made = await shared.image(["bootstrap", "node:24-bookworm-slim"]);
  assert.deepEqual(await shared.image(["bootstrap", "node:24-bookworm-slim"]), made);
  assert.match(made.stdout, /^node:24-bookworm-slim\tsha256:[0-9a-f]{64}\n$/);
  assert.equal(Buffer.from(await printed(["key", "generate"]), "base64").length, 32);
  const folder = mkdtempSync(`${tmpdir()}/helmr-keyless-`);
  const env = { HELMR_MASTER_KEY: "", HELMR_WORKER_BOOTSTRAP_TOKEN: "x".repeat(43) };
  const server = ["server", "--data-dir", folder, "--addr", "127.0.0.1:0"];
  const { code, stderr } = await command(binary, server, { env });
  rmSync(folder, { recursive: true });
  assert.equal(code, 1, stderr);
  assert.match(stderr, /HELMR_MASTER_KEY/);
}
