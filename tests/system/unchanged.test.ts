import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { test } from "node:test";
import { deploy, run } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import type { Deployed } from "./lib/helmr.ts";

/* The phases that found their work done, of those that start a sandbox. */
const cachedPhases = ({ events }: Deployed) =>
  events
    .filter(({ kind }) => kind === "deployment.build.step")
    .map(({ attributes }) => attributes)
    .filter(({ total, status, cached }) => !total && status === "done" && cached)
    .map(({ phase }) => phase);

const all = ["install", "evaluate", "load", "seal"];

test("an unchanged project is deployed again without a sandbox, and runs", async (t) => {
  const path = project(t, { "tasks/a.ts": { head: `// ${Date.now()}` } });
  assert.deepEqual(cachedPhases(await deploy(path)), []);
  const again = await deploy(path);
  assert.equal(again.record.status, "deployed", JSON.stringify(again.record.error));
  assert.deepEqual(cachedPhases(again), all);
  assert.equal((await run(again.id, "a")).status, "succeeded");
});

test("what is known of a project is not used when it changed or --no-cache is given", async (t) => {
  const path = project(t, { "tasks/a.ts": { head: `// ${Date.now()}` } });
  await deploy(path);
  assert.deepEqual(cachedPhases(await deploy(path, "--no-cache")), []);
  appendFileSync(`${path}/tasks/a.ts`, "// one more line\n");
  assert.deepEqual(cachedPhases(await deploy(path)), []);
  assert.deepEqual(cachedPhases(await deploy(path)), all);
});

test("a build with variables of its own is evaluated every time", async (t) => {
  const path = project(t, { "tasks/a.ts": { head: `// ${Date.now()}` }, ".variables": "A=1\n" });
  await deploy(path, "--env-file", `${path}/.variables`);
  assert.deepEqual(cachedPhases(await deploy(path, "--env-file", `${path}/.variables`)), []);
});
