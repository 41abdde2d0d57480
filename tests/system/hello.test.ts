import assert from "node:assert/strict";
import { test } from "node:test";
import { engine } from "./lib/engine.ts";
import { client, deployed, examples, printed, run, runEvents } from "./lib/helmr.ts";

const deployment = await deployed(`${examples}hello-world`);

test("hello-world greets who it is told to and prints its lines in order", async () => {
  const ended = await run(deployment, "hello-world", { name: "Ada" });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.equal(ended.exitCode, 0);
  assert.deepEqual(ended.output, { greeting: "Hello, Ada!", file: "greeting.txt" });
  const { stdout, stderr } = await client.runs.logs.retrieve(ended);
  const [first, second, ...rest] = stdout.split("\n");
  assert.equal(first, "Hello, Ada!");
  assert.match(second as string, /^wrote \/workspace\/greeting\.txt with Node 24\.\d+\.\d+$/);
  assert.deepEqual([rest, stderr], [[""], ""]);
});

test("a run says on which engine it ran", async () => {
  const { isolation } = await run(deployment, "hello-world", {});
  const [worker] = JSON.parse(await printed(["worker", "list", "--json"])).workers;
  const { accelerated } = worker.capabilities;
  assert.deepEqual(isolation, { engine: engine.name, grade: engine.grade, accelerated });
});

test("a payload that its schema refuses fails the run once", async () => {
  const retry = { maxAttempts: 3, backoff: { minMs: 100, maxMs: 100 } };
  const ended = await run(deployment, "hello-world", { name: 7 }, { retry });
  assert.equal(ended.status, "failed");
  assert.equal(ended.error?.layer, "task_process");
  assert.equal(ended.error?.failureKind, "payload_invalid");
  assert.match(ended.error?.message ?? "", /name: must be a string/);
  assert.equal(ended.attemptNumber, 1);
  const kinds = (await runEvents(ended.id)).map((event) => event.kind);
  assert.ok(!kinds.includes("run.retry_scheduled"));
});

test("the events of a run tell its life in order and end with one terminal event", async () => {
  const ended = await run(deployment, "hello-world", { name: "Ada" });
  const kinds = (await runEvents(ended.id)).map((event) => event.kind);
  const life = ["run.created", "run.lease_assigned", "run.lease_started", "run.completed"];
  assert.deepEqual(
    kinds.filter((kind) => life.includes(kind)),
    life,
  );
  assert.equal(kinds.at(-1), "run.completed");
});
