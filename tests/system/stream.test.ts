import assert from "node:assert/strict";
import { test } from "node:test";
import { patience } from "./lib/engine.ts";
import { api, client, deployed, projects, runEvents } from "./lib/helmr.ts";
import { followCut } from "./lib/stream.ts";

const deployment = await deployed(`${projects}tasks`);
const cuts = 20;

const start = (task: string, payload: unknown) =>
  client.tasks.trigger(task, payload, { deploymentId: deployment });

test("events followed over 20 cut connections have no gap and no repetition", async () => {
  const { id } = await start("ticks", { lines: 60, ms: 30 });
  const frames = await followCut(`/runs/${id}/events`, cuts, 3000);
  assert.ok(frames.every(({ event }) => event === "run_event"));
  assert.equal(frames.at(-1)?.data.kind, "run.completed");
  assert.deepEqual(
    frames.map(({ data }) => data),
    await runEvents(id),
  );
  const ticks = frames.filter(({ data }) => data.kind === "run.log");
  assert.deepEqual(
    ticks.map(({ data }) => data.attributes.message),
    Array.from({ length: 60 }, (_, line) => `tick ${line}`),
  );
});

test("logs followed over 20 cut connections have no gap and no repetition", async () => {
  const { id } = await start("floods", { bytes: 1024 * 1024 });
  const frames = await followCut(`/runs/${id}/logs`, cuts, 100_000);
  assert.ok(frames.every(({ event }) => event === "run_log"));
  assert.equal(new Set(frames.map((frame) => frame.id)).size, frames.length);
  const text = frames.map(({ data }) => Buffer.from(data.content_base64, "base64").toString());
  const { body } = await api(`/runs/${id}/logs`);
  assert.equal(text.join(""), Buffer.from(body.stdout_base64, "base64").toString());
  assert.equal(text.join("").length, 1024 * 1024);
});

test("a stream of a finished run is its whole history", async () => {
  const handle = await start("naps", {});
  await client.runs.wait(handle, { timeoutMs: patience(60_000) });
  const frames = await followCut(`/runs/${handle.id}/events`, 0, 1);
  assert.deepEqual(
    frames.map(({ data }) => data.kind),
    (await runEvents(handle.id)).map(({ kind }) => kind),
  );
});

test("the events of the client end with the run", async () => {
  const handle = await start("naps", { ms: 100 });
  const types: string[] = [];
  for await (const event of client.runs.events.subscribe(handle)) types.push(event.type);
  assert.equal(types.at(-1), "task_result");
  assert.ok(types.includes("log"));
});
