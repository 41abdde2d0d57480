import assert from "node:assert/strict";
import { test } from "node:test";
import { Guest, nodeVersion } from "./guest.ts";
import type { Files } from "./guest.ts";
import { taskHead } from "./tasks.ts";

/** A task that returns `value`, an expression over what it imports. */
function using(imports: string, value: string): string {
  const config = `{ id: "subject", sandbox: sbx, run: async () => ${value} }`;
  return `${imports}\n${taskHead}export const subject = task(${config});\n`;
}

const relative: [string, Files][] = [
  [
    "with its own extension",
    {
      "tasks/task.ts": using('import { value } from "./other.ts";', "value"),
      "tasks/other.ts": "export const value: number = 1",
    },
  ],
  [
    "without an extension",
    {
      "tasks/task.ts": using('import { value } from "./other";', "value"),
      "tasks/other.mts": "export const value = 1",
    },
  ],
  [
    "of a directory's index",
    {
      "tasks/task.ts": using('import { value } from "../lib";', "value"),
      "lib/index.ts": "export const value = 1",
    },
  ],
  [
    "of the file a compiler would write",
    {
      "tasks/task.ts": using('import { value } from "./other.js";', "value"),
      "tasks/other.ts": "export const value = 1",
    },
  ],
  [
    "of plain JavaScript",
    {
      "tasks/task.ts": using('import { value } from "./other.js";', "value"),
      "tasks/other.js": "export const value = 1",
      "package.json": '{"type":"module"}',
    },
  ],
  [
    "of CommonJS",
    {
      "tasks/task.ts": using('import other from "./other.cts";', "other.value"),
      "tasks/other.cts": 'const { value } = require("./third.cts"); module.exports = { value };',
      "tasks/third.cts": "exports.value = 1",
    },
  ],
  [
    "of JSON",
    {
      "tasks/task.ts": using('import data from "./data.json" with { type: "json" };', "data.value"),
      "tasks/data.json": '{"value":1}',
    },
  ],
  [
    "made while the task runs",
    {
      "tasks/task.ts": using("", '(await import("./other")).value'),
      "tasks/other.ts": "export const value = 1",
    },
  ],
];

for (const [what, files] of relative)
  test(`an import ${what} is found`, async () => {
    using guest = new Guest(files);
    const { output, stderr } = await guest.run();
    assert.equal(output, 1, stderr);
  });

const places = ["workspace", "image-workdir", "deps"];
/** A package with both kinds of entry and a package of its own inside. */
function pkg(directory: string): Files {
  const dep = `${directory}/node_modules/dep`;
  return {
    [`${dep}/package.json`]:
      '{"name":"dep","exports":{"import":"./esm.mjs","require":"./cjs.cjs"}}',
    [`${dep}/esm.mjs`]: `import { inner } from "inner"; export default ["${directory}", inner];`,
    [`${dep}/cjs.cjs`]: `module.exports = ["${directory}", "required"];`,
    [`${dep}/node_modules/inner/package.json`]: '{"name":"inner","main":"index.js"}',
    [`${dep}/node_modules/inner/index.js`]: 'exports.inner = "own";',
  };
}

for (const [i, first] of places.entries())
  test(`a package is taken from ${first} before ${places[i + 1] ?? "giving up"}`, async () => {
    using guest = new Guest({ "tasks/task.ts": using('import dep from "dep";', "dep") });
    for (const place of places.slice(i)) guest.write(pkg(place));
    const { output, stderr } = await guest.run({
      options: JSON.stringify({ workdir: `${guest.root}/image-workdir` }),
    });
    assert.deepEqual(output, [first, "own"], stderr);
  });

/* Node 22 does not ask hooks about a require inside a CommonJS file that a module imported. */
const skip = nodeVersion.startsWith("22.") && "Node 22 resolves such a require by itself";

test("a required package is taken from the same places", { skip }, async () => {
  using guest = new Guest({
    "tasks/task.ts": using('import other from "./other.cts";', "other"),
    "tasks/other.cts": 'module.exports = require("dep");',
  });
  guest.write(pkg("deps"));
  const { output, stderr } = await guest.run();
  assert.deepEqual(output, ["deps", "required"], stderr);
});

test("a copy of the SDK among the dependencies is used and understood", async () => {
  using guest = new Guest({ "tasks/task.ts": using("", "1") });
  guest.write({
    "deps/node_modules/@helmr/sdk/package.json":
      '{"name":"@helmr/sdk","type":"module","exports":"./index.js"}',
    "deps/node_modules/@helmr/sdk/index.js":
      'console.log("other copy"); export * from "../../../../sdk/dist/index.js";',
  });
  const { output, stdout } = await guest.run();
  assert.deepEqual([output, stdout], [1, "other copy\n"]);
});

test("register.mjs gives another thread the same resolution", async () => {
  const worker = `new Worker(new URL("./worker.ts", import.meta.url), {
    execArgv: ["--import", new URL("../../adapter/register.mjs", import.meta.url).href],
  })`;
  using guest = new Guest({
    "tasks/task.ts": using(
      'import { Worker } from "node:worker_threads"; import { once } from "node:events";',
      `(await once(${worker}, "message"))[0]`,
    ),
    "tasks/worker.ts": `import dep from "dep"; import { parentPort } from "node:worker_threads";
      parentPort?.postMessage(dep);`,
  });
  guest.write(pkg("deps"));
  const { output, stderr } = await guest.run();
  assert.deepEqual(output, ["deps", "own"], stderr);
});
