// What a task says of its run, in a real sandbox: metadata, events of its own, attributes of its
// log, retries and tags.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { RunSnapshot } from "@helmr/sdk";
import { client, deployed, runEvents } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const deploymentId = await deployed(
  project(
    { after },
    {
      "tasks/a.ts": `import { image, logger, metadata, sandbox, task } from "@helmr/sdk";
const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"));

export const tells = task({
  id: "tells",
  sandbox: box,
  run: async (ctx) => {
    await metadata.set("step", "fetch");
    await Promise.all(Array.from({ length: 100 }, () => metadata.increment("done")));
    void metadata.patch({ step: "build", parts: ["a"] });
    await metadata.increment("score", 0.5);
    await ctx.emit({ type: "part", content: [{ text: "hello" }, 1, null] });
    logger.info("fetched", { bytes: 12 });
    logger.info("no", "attributes", { bytes: 12 });
    /* Nobody awaits these: the run ends after them all the same. */
    void ctx.emit({ type: "part", content: ["x".repeat(262_140)] });
    void metadata.set("last", true);
    return "told";
  },
});

export const refused = task({
  id: "refused",
  sandbox: box,
  run: async (ctx) => {
    const errors: string[] = [];
    const note = (error: Error) => errors.push(error.name + ": " + error.message);
    await metadata.set("name", "text");
    await metadata.increment("name").catch(note);
    await metadata.set("a", "x".repeat(200_000));
    await metadata.set("b", "x".repeat(200_000)).catch(note);
    await ctx.emit({ type: "t", content: ["x".repeat(262_141)] }).catch(note);
    return errors;
  },
});

export const retries = task({
  id: "retries",
  sandbox: box,
  retry: { maxAttempts: 2, backoff: { minMs: 10, maxMs: 20, factor: 1, jitter: "none" } },
  run: async (ctx) => {
    await metadata.increment("attempts");
    if (ctx.run.attemptNumber < 3) throw new Error("attempt " + ctx.run.attemptNumber);
    return ctx.run.attemptNumber;
  },
});
`,
    },
  ),
);

async function ended(task: string, options: object = {}): Promise<RunSnapshot> {
  const { id } = await client.tasks.trigger(task, undefined, { deploymentId, ...options });
  return client.runs.wait(id, { timeoutMs: 300_000 });
}

test("metadata changes in order and is seen with the run", async () => {
  const run = await ended("tells", { metadata: { from: "start" }, tags: ["a", "b"] });
  assert.equal(run.status, "succeeded", JSON.stringify(run.error));
  assert.deepEqual(run.metadata, {
    from: "start",
    step: "build",
    done: 100,
    parts: ["a"],
    score: 0.5,
    last: true,
  });
  assert.deepEqual(run.tags, ["a", "b"]);

  const events = await runEvents(run.id);
  const changes = events.filter(({ kind }) => kind === "run.metadata.updated");
  assert.equal(changes.length, 104);
  assert.deepEqual(changes[0]?.attributes, { operation: "set", key: "step" });
  assert.deepEqual(changes.at(101)?.attributes, { operation: "patch" });
  assert.deepEqual(changes.at(-1)?.attributes, { operation: "set", key: "last" });
});

test("what a task emits and logs are events of its run", async () => {
  const run = await ended("tells");
  const events = await runEvents(run.id);
  const emitted = events.filter(({ kind }) => kind === "emit.part");
  assert.equal(emitted.length, 2);
  assert.deepEqual(emitted[0]?.attributes, {
    type: "part",
    content: [{ text: "hello" }, 1, null],
  });
  const logged = events.filter(({ kind }) => kind === "run.log");
  assert.deepEqual(logged[0]?.attributes, {
    level: "info",
    message: "fetched",
    attributes: { bytes: 12 },
  });
  assert.deepEqual(logged[1]?.attributes, {
    level: "info",
    message: "no attributes { bytes: 12 }",
  });
});

test("what is too large or no number is refused, and the task may go on", async () => {
  const run = await ended("refused");
  assert.equal(run.status, "succeeded", JSON.stringify(run.error));
  const errors = run.output as string[];
  assert.equal(errors.length, 3);
  assert.match(errors[0] ?? "", /not a number/);
  assert.match(errors[1] ?? "", /262144|256 KiB/);
  assert.match(errors[2] ?? "", /^TypeError: event.content must not be over 256 KiB/);
});

test("a policy of the start replaces the task's, and metadata counts on over attempts", async () => {
  const own = await ended("retries");
  assert.deepEqual([own.status, own.metadata], ["failed", { attempts: 2 }]);
  const given = await ended("retries", { retry: { maxAttempts: 3, backoff: { minMs: 0, maxMs: 0 } } });
  assert.deepEqual([given.status, given.output, given.metadata], ["succeeded", 3, { attempts: 3 }]);
  const scheduled = (await runEvents(given.id)).filter(({ kind }) => kind === "run.retry_scheduled");
  assert.deepEqual(
    scheduled.map(({ attributes }) => [
      attributes.previous_attempt_number,
      attributes.next_attempt_number,
      attributes.reason,
    ]),
    [
      [1, 2, "task_failed"],
      [2, 3, "task_failed"],
    ],
  );
  const never = await ended("retries", { retry: { enabled: false } });
  assert.deepEqual([never.status, never.metadata], ["failed", { attempts: 1 }]);
});
