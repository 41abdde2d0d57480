import assert from "node:assert/strict";
import { symlinkSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { api, deploy, helmr, projects, run } from "./lib/helmr.ts";
import { imageSteps } from "./lib/installation.ts";
import { project } from "./lib/project.ts";

test("every image step has its effect", async () => {
  const made = await deploy(`${projects}steps`, "--no-cache");
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  assert.ok(imageSteps(made).some(({ cached }) => !cached));
  const ended = await run(made.id, "look");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.deepEqual(ended.output, {
    made: "good morning from /srv/app",
    copied: ["deep", "deep/keep.txt", "deep/kept.log", "one.txt", "tool"],
    parts: ["deep", "deep/part", "link"],
    link: "deep/part",
    mode: "104750",
    tool: "tool ran as agent",
    madeBy: "agent",
    greeting: "good morning",
    cwd: "/workspace",
    path: "/workspace",
    user: [1234, "agent", "/home/agent"],
    canWriteWorkspace: true,
  });
});

/* Sources that are not taken: what is copied, and what the message must say. */
const untaken: [string, RegExp][] = [
  ['source.file("link.txt")', /link\.txt, which is not a file/],
  ['source.directory("linked")', /linked, which is not a directory/],
  ['source.file("nothing.txt")', /nothing\.txt/],
  ['source.directory("package.json")', /package\.json/],
  ['source.file("../outside.txt")', /outside\.txt|outside the project|inside/],
];

for (const [what, says] of untaken)
  test(`${what} is refused where it is no such thing`, async (t) => {
    const head = 'import { source } from "@helmr/sdk";';
    const path = project(t, { "tasks/a.ts": { head, steps: `.copy("/x", ${what})` } });
    symlinkSync("package.json", `${path}/link.txt`);
    symlinkSync("tasks", `${path}/linked`);
    const { code, record } = await deploy(path);
    assert.equal(code, 1);
    assert.equal(record.error.layer, "deployment_build");
    assert.match(record.error.message, says);
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

test("of a step that prints without end the beginning and the end are kept", async (t) => {
  const steps = '.run(["sh", "-c", "echo the begin; yes | head -c 12000000; echo the end"])';
  const made = await deploy(project(t, { "tasks/a.ts": { steps } }), "--no-cache");
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  const log = made.events
    .filter(({ kind }) => kind === "deployment.build.log")
    .map(({ attributes }) => attributes.text)
    .join("");
  assert.match(log, /^the begin$/m);
  assert.match(log, /^\[\d+ bytes of output are left out here\]$/m);
  assert.match(log, /^the end$/m);
  assert.ok(log.length < 9_000_000, `${log.length} bytes`);
});

test("only what comes after a changed file is built again", async (t) => {
  const path = project(t, {
    "first.txt": "1",
    "second.txt": "2",
    "tasks/a.ts": {
      head: 'import { source } from "@helmr/sdk";',
      steps:
        `.env("MARK", "${Date.now()}").run(["touch", "/before"])` +
        '.copy("/first", source.file("first.txt")).run(["cp", "/first", "/copied"])' +
        '.copy("/second", source.file("second.txt")).run(["cat", "/second"])',
    },
  });
  await deploy(path);
  writeFileSync(`${path}/second.txt`, "changed");
  const steps = imageSteps(await deploy(path));
  assert.deepEqual(
    steps.map(({ cached }) => cached),
    [true, true, true, true, true, false, false],
  );
});

/* Two images of one project, each with one step of its own. */
const pair = (one: string, two: string): string => `
import { image, sandbox, task } from "@helmr/sdk";
const made = (id: string, script: string) => task({
  id,
  sandbox: sandbox(id).image(image(id).from("node:24-bookworm-slim").run(["sh", "-c", script])),
  run: async () => "fine",
});
export const one = made("one", ${JSON.stringify(one)});
export const two = made("two", ${JSON.stringify(two)});
`;

test("images are built side by side", { skip: availableParallelism() < 2 }, async (t) => {
  const wait = `: ${Date.now()}; sleep 3`;
  const { record, events } = await deploy(project(t, { "tasks/a.ts": pair(wait, `${wait}; :`) }));
  assert.equal(record.status, "deployed", JSON.stringify(record.error));
  const steps = events
    .map(({ attributes }) => attributes)
    .filter(({ phase, index }) => phase === "image" && index === 2)
    .map(({ image, status }) => `${image} ${status}`);
  assert.deepEqual(steps.slice(0, 2).sort(), ["one started", "two started"]);
  assert.deepEqual(steps.slice(2).sort(), ["one done", "two done"]);
});

test("the first image that fails ends the others", async (t) => {
  const made = await deploy(
    project(t, { "tasks/a.ts": pair(`sleep 2; exit 3 # ${Date.now()}`, "sleep 600") }),
  );
  assert.equal(made.record.status, "failed");
  assert.match(made.record.error.message, /^image one: step 2 of 2: RUN .* exited with code 3$/);
});

/** Once the newest deployment has started a step of that text. */
async function started(text: string): Promise<string> {
  for (;;) {
    const { body } = await api("/deployments?limit=1");
    const { id } = body.deployments[0];
    const page = await api(`/deployments/${id}/events?limit=200`);
    if (page.body.events.some(({ attributes }: any) => attributes.name?.includes(text))) return id;
    await sleep(50);
  }
}

test("a cancelled build ends its steps", async (t) => {
  const mark = `mark-${Date.now()}`;
  const going = deploy(
    project(t, { "tasks/a.ts": pair(`sleep 600; : ${mark}`, `sleep 601; : ${mark}`) }),
  );
  const id = await started(mark);
  const cancelled = await helmr(["deployment", "cancel", id]);
  assert.equal(cancelled.code, 0, cancelled.stderr);
  const { record } = await going;
  assert.equal(record.error?.failure_kind, "build_cancelled", JSON.stringify(record));
  /* One build at a time: this one begins when nothing of the other is left. */
  const next = await deploy(project(t, {}));
  assert.equal(next.record.status, "deployed", JSON.stringify(next.record.error));
});
