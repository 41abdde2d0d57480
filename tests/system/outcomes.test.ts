import assert from "node:assert/strict";
import { test } from "node:test";
import { patience } from "./lib/engine.ts";
import { api, client, deployed, printed, projects, run, runEvents, said } from "./lib/helmr.ts";

const deployment = await deployed(`${projects}tasks`);

test("a task that throws fails with its message and its own stack", async () => {
  const ended = await run(deployment, "throws");
  assert.equal(ended.status, "failed");
  assert.equal(ended.exitCode, 1);
  assert.equal(ended.error?.layer, "task_process");
  assert.equal(ended.error?.failureKind, "task_failed");
  assert.match(ended.error?.message ?? "", /the disk is on fire/);
  const { stdout, stderr } = await client.runs.logs.retrieve(ended);
  assert.equal(stdout, "about to burn\n");
  assert.match(stderr, /Error: the disk is on fire\n\s+at burn \(.*tasks\/outcomes\.ts:8:9\)/);

  const shown = await printed(["show", ended.id]);
  assert.match(shown, /^Status:\s+failed$/m);
  assert.match(shown, /^Exit:\s+1$/m);
  assert.match(shown, /^Error:\s+task process: the disk is on fire/m);
  assert.match(shown, /tasks\/outcomes\.ts:8/);
});

test("a task that exits by itself keeps its exit code", async () => {
  const ended = await run(deployment, "exits");
  assert.equal(ended.status, "failed");
  assert.equal(ended.exitCode, 3);
  assert.equal(ended.error?.layer, "task_process");
  assert.equal(ended.error?.failureKind, "task_failed");
  const { stdout } = await client.runs.logs.retrieve(ended);
  assert.equal(stdout, "leaving\n");
});

test("a busy task is ended at its maximum duration", async () => {
  const ended = await run(deployment, "overstays");
  assert.equal(ended.status, "failed");
  assert.equal(ended.error?.layer, "timeout");
  assert.equal(ended.error?.failureKind, "max_duration_exceeded");
});

test("a rejection that nobody handles fails the run", async () => {
  const ended = await run(deployment, "rejects");
  assert.equal(ended.status, "failed");
  assert.equal(ended.exitCode, 1);
  assert.equal(ended.error?.failureKind, "task_failed");
  assert.match(ended.error?.message ?? "", /nobody listens/);
});

test("an output that is no JSON is refused", async () => {
  const ended = await run(deployment, "returns-bigint");
  assert.equal(ended.status, "failed");
  assert.equal(ended.error?.layer, "task_process");
  assert.equal(ended.error?.failureKind, "output_invalid");
});

test("a failed attempt is tried again as its policy says", async () => {
  const ended = await run(deployment, "recovers");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.deepEqual(ended.output, { attempt: 2 });
  assert.equal(ended.attemptNumber, 2);
  const events = await runEvents(ended.id);
  assert.equal(events.filter(({ kind }) => kind === "run.retry_scheduled").length, 1);
});

test("a cancelled task sees the signal and may end by itself", async () => {
  const handle = await client.tasks.trigger("listens", undefined, { deploymentId: deployment });
  await said(handle.id, "listening");
  const { operation } = await client.runs.cancel(handle, { reason: "changed my mind" });
  assert.equal(operation.status, "pending");
  const ended = await client.runs.wait(handle, { timeoutMs: patience(60_000) });
  assert.equal(ended.status, "cancelled");
  const { stdout } = await client.runs.logs.retrieve(handle);
  assert.match(stdout, /heard: .*changed my mind/);
});

test("a task that ignores its cancellation is killed by force", async () => {
  const handle = await client.tasks.trigger("ignores", undefined, { deploymentId: deployment });
  await said(handle.id, "deaf");
  await client.runs.cancel(handle, { force: true });
  const ended = await client.runs.wait(handle, { timeoutMs: patience(20_000) });
  assert.equal(ended.status, "cancelled");
});

test("cancelling a run that is over changes nothing", async () => {
  const ended = await run(deployment, "naps", {});
  const { run: after, operation } = await client.runs.cancel(ended);
  assert.equal(operation.status, "ignored");
  assert.equal(after.status, "succeeded");
});

test("log entries are events and lines", async () => {
  const ended = await run(deployment, "logs");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  const { stdout, stderr } = await client.runs.logs.retrieve(ended);
  assert.equal(stdout, "info starting 42 [ 'a' ]\nwarn half way\nno newline at the end");
  assert.equal(stderr, "error odd\n");
  const entries = (await runEvents(ended.id)).filter(({ kind }) => kind === "run.log");
  assert.deepEqual(
    entries.map(({ attributes }) => attributes.level),
    ["info", "warn", "error"],
  );
  assert.deepEqual(entries[1]?.attributes.attributes, { percent: 50 });
});

test("a task that takes no payload refuses one before it starts", async () => {
  const body = { task_id: "throws", payload: { a: 1 }, options: { deployment_id: deployment } };
  const answer = await api("/runs", { method: "POST", body: JSON.stringify(body) });
  assert.equal(answer.status, 400);
  assert.equal(answer.body.code, "payload_not_accepted");
});
