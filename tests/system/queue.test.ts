import assert from "node:assert/strict";
import { test } from "node:test";
import { patience } from "./lib/engine.ts";
import { client, deployed, projects, runEvents } from "./lib/helmr.ts";

const deployment = await deployed(`${projects}tasks`);
const crowd = Number(process.env.QUEUE_RUNS ?? 60);

test(`${crowd} runs queued at once on 4 slots all end, each exactly once`, async () => {
  const handles = await Promise.all(
    Array.from({ length: crowd }, () =>
      client.tasks.trigger("naps", { ms: 0 }, { deploymentId: deployment }),
    ),
  );
  assert.equal(new Set(handles.map(({ id }) => id)).size, crowd);
  for (const { id } of handles) {
    const ended = await client.runs.wait(id, { timeoutMs: patience(300_000) });
    assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    const kinds = (await runEvents(id)).map(({ kind }) => kind);
    assert.equal(kinds.filter((kind) => kind === "run.completed").length, 1);
    assert.equal(kinds.filter((kind) => kind === "run.lease_assigned").length, 1);
  }
});
