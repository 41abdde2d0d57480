import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest, nodeVersion } from "./guest.ts";
import type { Ended, Files } from "./guest.ts";
import { taskWith } from "./tasks.ts";

const good = taskWith("async () => 1");

function check(guest: Guest, dependencies: string[] = []): Promise<Ended> {
  const options = { tasks: [{ module: "tasks/task.ts", export: "subject" }], dependencies };
  return guest.run({ mode: "check" }, JSON.stringify(options));
}

test("an image that can load its tasks is told so, with its Node", async () => {
  using guest = new Guest(good);
  const { code, output } = await check(guest);
  assert.equal(code, 0);
  assert.deepEqual(output, {
    node: nodeVersion,
    tasks: [{ module: "tasks/task.ts", export: "subject", preload: true }],
  });
});

test("a dependency that is nowhere in the chain is missing", async () => {
  using guest = new Guest(good);
  const { loaded } = await check(guest, ["left-pad"]);
  assert.equal(loaded?.failure, "dependency_missing");
  assert.match(
    loaded?.message ?? "",
    /"left-pad" of package\.json is in none of .*install it in the image/,
  );
});

test("a dependency that is there is found", async () => {
  using guest = new Guest(good);
  guest.write({ "deps/node_modules/@scope/dep/package.json": "{}" });
  assert.equal((await check(guest, ["@scope/dep"])).code, 0);
});

const failures: [string, Files, string, RegExp][] = [
  [
    "a module that throws",
    { "tasks/task.ts": "\nthrow new Error('no')" },
    "task_load_failed",
    /tasks\/task\.ts:2: no/,
  ],
  [
    "a module without its task",
    { "tasks/task.ts": "export {}" },
    "task_load_failed",
    /does not export a task as "subject"/,
  ],
  [
    "an undeclared package",
    { "tasks/task.ts": 'import "gone"' },
    "dependency_missing",
    /imports "gone"/,
  ],
];

for (const [what, files, kind, message] of failures)
  test(`${what} is ${kind}`, async () => {
    using guest = new Guest(files);
    const { code, loaded, outcome } = await check(guest);
    assert.deepEqual([code, loaded?.failure, outcome?.errorName], [1, kind, kind]);
    assert.match(loaded?.message ?? "", message);
  });
