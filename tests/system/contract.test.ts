import assert from "node:assert/strict";
import { before, test } from "node:test";
import { contract, contractScripts } from "./lib/contract.ts";
import { deployed, projects, run } from "./lib/helmr.ts";

const deployment = await deployed(`${projects}tasks`);

let seen: Record<string, string> = {};

before(async () => {
  const ended = await run(deployment, "shell", { scripts: contractScripts, note: "scripts-of-this-run" });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  seen = ended.output as typeof seen;
});

for (const [name, script, expected] of contract)
  test(`in a sandbox, ${name}`, () => assert.match(seen[name] as string, expected, script));

test("in a sandbox, folders can be listed", async () => {
  const ended = await run(deployment, "shell", { scripts: { list: "ls -ld /usr && stat /usr" } });
  assert.match((ended.output as { list: string }).list, /^drwx[^]*File: \/usr$/m);
});

test("what a run writes outside the workspace is gone in the next", async () => {
  const marks = ["/usr/left", "/tmp/left", "/dev/shm/left", "/root/left", "/workspace/left"];
  const leave = { scripts: { leave: `touch ${marks.join(" ")}` } };
  const look = { scripts: { look: `find ${marks.join(" ")} 2>/dev/null | wc -l` } };
  assert.deepEqual((await run(deployment, "shell", leave)).output, { leave: "" });
  assert.deepEqual((await run(deployment, "shell", look)).output, { look: "0" });
});

test("processes that a task leaves behind do not keep its run alive", async () => {
  const scripts = { fork: "setsid sleep 1000 >/dev/null 2>&1 & echo started" };
  const ended = await run(deployment, "shell", { scripts });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
});
