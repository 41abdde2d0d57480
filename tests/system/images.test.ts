import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy, projects, run } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import type { Deployed } from "./lib/helmr.ts";

const imageSteps = ({ events }: Deployed) =>
  events
    .filter(({ kind }) => kind === "deployment.build.step")
    .map(({ attributes }) => attributes)
    .filter(({ phase, total, status }) => phase === "image" && total && status === "done");

test("every image step has its effect", async () => {
  const made = await deploy(`${projects}steps`, "--no-cache");
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  assert.ok(imageSteps(made).some(({ cached }) => !cached));
  const ended = await run(made.id, "look");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.deepEqual(ended.output, {
    made: "good morning from /srv/app",
    copied: ["one.txt", "tool"],
    tool: "tool ran as agent",
    madeBy: "agent",
    greeting: "good morning",
    cwd: "/workspace",
    path: "/workspace",
    user: [1234, "agent", "/home/agent"],
    canWriteWorkspace: true,
  });
});

test("the same steps are not built twice", async () => {
  const again = imageSteps(await deploy(`${projects}steps`));
  assert.ok(again.length > 0);
  assert.deepEqual(
    again.filter(({ cached }) => !cached),
    [],
  );
});

test("a step that fails is named and its output is shown", async (t) => {
  const steps = '.run(["sh", "-c", "echo it broke here >&2; exit 7"])';
  const path = project(t, { "tasks/a.ts": { steps } });
  const { code, stderr, record } = await deploy(path);
  assert.equal(code, 1);
  assert.equal(record.status, "failed");
  assert.equal(record.error.layer, "deployment_build");
  assert.equal(record.error.failure_kind, "image_build_failed");
  assert.match(record.error.message, /exit(ed with)? code 7/);
  assert.match(record.error.message, /echo it broke here/);
  assert.match(stderr, /^\s*it broke here$/m);
});
