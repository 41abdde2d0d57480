// What a deployment learns of its tasks' imports, and how far a sandbox had come that a run took.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, describe, test } from "node:test";
import { api, deployed, helmr, printed, run, runEvents } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const secret = `sk-${randomBytes(12).toString("hex")}`;
const tries = 30;

const task = (id: string, head: string, body: string): string => `
import { randomUUID } from "node:crypto";
import { image, sandbox, task } from "@helmr/sdk";
import { loads } from "../lib/loads.ts";
${head}
loads.push("${id}");
export const subject = task({
  id: "${id}",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  secrets: { IMPORT_KEY: { env: "IMPORT_KEY" } },
  run: async () => {
    ${body}
  },
});
`;

const found = `return { loads, random: Math.random(), uuid: randomUUID(), now: Date.now(),
      key: process.env.IMPORT_KEY };`;

const files = {
  "tasks/a.ts": null,
  "lib/loads.ts": "export const loads: string[] = [];\n",
  "tasks/pure.ts": task("pure", "", found),
  "tasks/other.ts": task("other", "", found),
  "tasks/reads.ts": task(
    "reads",
    "const early = process.env.IMPORT_KEY;",
    "return { early, late: process.env.IMPORT_KEY };",
  ),
  /* Seen through when it is observed, and then against being imported without a run. */
  "tasks/resists.ts": task(
    "resists",
    `import { types } from "node:util";
const isKnown = ["runRuntime", "DefinitionRegistry"].some(
  (name) => Symbol.for("helmr.sdk." + name) in globalThis,
);
if (!types.isProxy(Date) && !isKnown) throw new Error("not without a run");`,
    "return { loads };",
  ),
  "tasks/draws.ts": task("draws", "const drawn = Math.random();", "return { drawn };"),
};

interface Start {
  readonly level: string | undefined;
  readonly output: any;
}

async function startOf(deployment: string, id: string): Promise<Start> {
  const ended = await run(deployment, id);
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  const events = await runEvents(ended.id);
  const started = events.find(({ kind }) => kind === "run.lease_started");
  assert.ok(started);
  assert.equal(started.attributes.level === undefined, started.attributes.start === "boot");
  return { level: started.attributes.level, output: ended.output };
}

describe("imports", () => {
  const scope = declaredScope();
  let deployment = "";

  before(async () => {
    await printed(["secret", "set", "IMPORT_KEY"], { input: secret });
    deployment = await deployed(project(scope, files));
  });

  /** Until one starts at this level: which one does depends on what was made when. */
  async function atLevel(id: string, level: string): Promise<Start> {
    for (let n = 0; n < tries; n++) {
      const start = await startOf(deployment, id);
      if (start.level === level) return start;
    }
    throw new Error(`none of ${tries} runs of ${id} started at level ${level}`);
  }

  test("a deployment knows what its imports did", async () => {
    const { tasks } = (await api(`/deployments/${deployment}`)).body;
    const verdicts = tasks.map((one: any) => [one.task_id, one.preload, one.preload_reason]);
    assert.deepEqual(verdicts, [
      ["draws", false, "tasks/draws.ts:5 draws a random number"],
      ["other", true, undefined],
      ["pure", true, undefined],
      ["reads", false, "tasks/reads.ts:5 reads the environment variable IMPORT_KEY"],
      ["resists", true, undefined],
    ]);
  });

  test("a task whose import is the same at any time finds it done, and all else as of now", async () => {
    const before = Date.now();
    const one = await atLevel("pure", "b");
    const two = await atLevel("pure", "b");
    for (const { output } of [one, two]) {
      assert.deepEqual(output.loads, ["pure"]);
      assert.equal(output.key, secret);
      assert.ok(output.now >= before - 2000);
    }
    assert.notEqual(one.output.random, two.output.random);
    assert.notEqual(one.output.uuid, two.output.uuid);
  });

  test("a task that reads a secret while it is imported gets this run's", async () => {
    const { output } = await atLevel("reads", "a");
    assert.deepEqual(output, { early: secret, late: secret });
    const again = `${secret}-again`;
    await printed(["secret", "set", "IMPORT_KEY"], { input: again });
    for (const level of ["a", "a"]) {
      const { output: next } = await atLevel("reads", level);
      assert.deepEqual(next, { early: again, late: again });
    }
  });

  test("a number drawn while it is imported is each run's own", async () => {
    const one = await atLevel("draws", "a");
    const two = await atLevel("draws", "a");
    assert.notEqual(one.output.drawn, two.output.drawn);
  });

  test("a module that throws when it is imported ahead is imported in the run", async () => {
    for (let n = 0; n < 3; n++) {
      const { level, output } = await startOf(deployment, "resists");
      assert.notEqual(level, "b");
      assert.equal(output.loads.at(-1), "resists");
    }
    await atLevel("resists", "a");
  });

  test("no run of a task that must be imported in its run starts at level b", async () => {
    for (const id of ["reads", "draws"])
      for (let n = 0; n < 3; n++) assert.notEqual((await startOf(deployment, id)).level, "b");
  });

  test("a deploy of the same files remembers it", async (t) => {
    const again = await deployed(project(t, files));
    const { tasks } = (await api(`/deployments/${again}`)).body;
    assert.deepEqual(
      tasks.map((one: any) => one.preload),
      [false, true, true, false, true],
    );
  });

  test("the reason is shown to people", async () => {
    await printed(["deployment", "promote", deployment]);
    const { stdout } = await helmr(["task", "get", "reads"]);
    assert.match(stdout, /^Preload: no: tasks\/reads\.ts:5 reads the environment variable/m);
    assert.match((await helmr(["task", "get", "pure"])).stdout, /^Preload: yes$/m);
  });
});
