// Rows of the checklist about the review of a pull request.
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { api, printed, projects } from "./helmr.ts";
import { command } from "./installation.ts";
import { until } from "./own.ts";
import { bound, deployedReview, event, eventsOf, key, payload, said, show } from "./review.ts";
import { startArgs, startedReview, tried } from "./review.ts";

export const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\n$/;

export async function typeChecks(): Promise<void> {
  const flags = "--noEmit --strict --target es2023 --module esnext --moduleResolution bundler";
  const files = ["helmr.config.ts", "tasks/review-pr.ts"].map((file) => `${projects}review-pr/${file}`);
  const args = [...flags.split(" "), "--types", "node", "--skipLibCheck", ...files];
  const { code, stdout } = await command("node_modules/.bin/tsc", args);
  assert.equal(code, 0, stdout);
}

export async function goesToItsProject(): Promise<void> {
  const version = await deployedReview();
  assert.match(await said(["deployment", "get", version]), /^Status: deployed$/m);
  assert.match(await said(["task", "list"]), /^review-pr\t/);
  const elsewhere = { cwd: tmpdir() };
  const id = await printed([...startArgs, ...bound, "-p", "github-pr-review"], elsewhere);
  assert.match(id, uuid);
  await said(["run", "cancel", id.trim()]);
}

export async function startsOnce(): Promise<void> {
  const id = await startedReview();
  assert.match(id, uuid);
  const run = await show(id.trim());
  assert.match(await said(["session", "get", run.session_id]), new RegExp(`Workspace: ${run.workspace_id}`));
}

export async function waitsForAPerson(): Promise<void> {
  const id = (await startedReview()).trim();
  const { attributes } = await event(id, "run_wait.created");
  assert.equal(attributes.metadata.prompt, "Post this review to GitHub?");
  await until("waiting", async () => (await show(id)).status === "waiting");
  assert.match(await said(["show", id]), new RegExp(`^Wait: token:${attributes.wait_id}$`, "m"));
  assert.match(await said(["ps"]), new RegExp(`^${id}\t.*\ttoken:${attributes.wait_id}\t`, "m"));
}

export async function isParked(): Promise<void> {
  await event((await startedReview()).trim(), "checkpoint.ready");
  await until("no lease", async () => /^active: 0$/m.test(await printed(["worker", "status"])));
}

export async function refusesOtherSources(): Promise<void> {
  await deployedReview();
  const before = await said(["ps", "--json"]);
  for (const source of ["env:OPENAI_API_KEY", "file:/x"]) {
    const { code, stderr } = await tried([...startArgs, "--secret", `OPENAI_API_KEY=${source}`]);
    assert.equal(code, 1);
    assert.match(stderr, /^helmr: .*vault/);
  }
  assert.equal(await said(["ps", "--json"]), before);
  const body = JSON.stringify({ task_id: "review-pr", secrets: { A: "env:A" } });
  const { status, body: answer } = await api("/runs", { method: "POST", body });
  assert.deepEqual([status, answer.code], [400, "secret_source_unsupported"]);
}

export async function usesTheStoredSecret(): Promise<void> {
  await deployedReview();
  const id = (await said(startArgs)).trim();
  await event(id, "run_wait.created");
  await said(["run", "cancel", id, "--force"]);
  await said(["secret", "delete", "OPENAI_API_KEY", "--yes"]);
  const { code, stderr } = await tried(startArgs);
  assert.equal(code, 1);
  assert.match(stderr, /\(secret_missing\)/);
  await said(["secret", "set", "OPENAI_API_KEY"], { input: key });
}

export async function keepsThePayload(): Promise<void> {
  const id = (await startedReview()).trim();
  assert.deepEqual((await show(id)).payload, JSON.parse(payload));
  const [created] = await eventsOf(id);
  assert.equal(created.kind, "run.created");
  assert.deepEqual(created.attributes.payload, JSON.parse(payload));
}
