import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { OUTCOME } from "../src/messages.ts";
import { Guest, writeFiles } from "./guest.ts";
import type { Ended, Files } from "./guest.ts";
import { taskHead } from "./tasks.ts";

const named = (id: string, more = ""): string =>
  `task({ id: "${id}", sandbox: sbx, ${more} run: async () => 1 })`;

const project: Files = {
  "package.json": '{"private":true,"type":"module"}',
  "helmr.config.ts":
    'import { defineConfig } from "@helmr/sdk";\nexport default defineConfig({ project: "p", dirs: ["./tasks"] });\n',
  "tasks/one.ts": `${taskHead}export const one = ${named("one")};\n`,
};

function index(guest: Guest, files: Files): Promise<Ended> {
  const source = join(guest.root, "project");
  writeFiles(source, files);
  return guest.run({
    mode: "index",
    options: JSON.stringify({ source, output: join(guest.root, "task") }),
  });
}

const without = (name: string): Files =>
  Object.fromEntries(Object.entries(project).filter(([key]) => key !== name));

const faults: [string, Files, string, RegExp, { file?: string; line?: number }][] = [
  [
    "no config file",
    without("helmr.config.ts"),
    "config_invalid",
    /no helmr\.config\.ts: add one/,
    { file: "helmr.config.ts" },
  ],
  [
    "no package.json",
    without("package.json"),
    "config_invalid",
    /no package\.json: add one/,
    { file: "package.json" },
  ],
  [
    "a broken package.json",
    { ...project, "package.json": "{" },
    "config_invalid",
    /package\.json is not JSON/,
    { file: "package.json" },
  ],
  [
    "a package.json that is a list",
    { ...project, "package.json": "[]" },
    "config_invalid",
    /must be a JSON object/,
    { file: "package.json" },
  ],
  [
    "a config that is not one",
    { ...project, "helmr.config.ts": "export default {}" },
    "config_invalid",
    /must default-export defineConfig/,
    { file: "helmr.config.ts" },
  ],
  [
    "a config with an unknown key",
    {
      ...project,
      "helmr.config.ts":
        'import { defineConfig } from "@helmr/sdk";\nexport default defineConfig({ project: "p", dirs: ["tasks"], dir: 1 } as never);',
    },
    "config_invalid",
    /helmr\.config\.ts:2: config\.dir is unknown/,
    { file: "helmr.config.ts", line: 2 },
  ],
  [
    "a syntax error in the config",
    { ...project, "helmr.config.ts": "export default {" },
    "config_invalid",
    /helmr\.config\.ts:1:/,
    { file: "helmr.config.ts", line: 1 },
  ],
  [
    "a directory that is not there",
    {
      ...project,
      "helmr.config.ts":
        'import { defineConfig } from "@helmr/sdk";\nexport default defineConfig({ project: "p", dirs: ["nowhere"] });',
    },
    "config_invalid",
    /dirs names nowhere/,
    {},
  ],
  [
    "a syntax error in a task",
    { ...project, "tasks/bad.ts": "const a: number = 1;\nconst b = ;\n" },
    "task_invalid",
    /tasks\/bad\.ts:2:11: .*correct the syntax/,
    { file: "tasks/bad.ts", line: 2 },
  ],
  [
    "a syntax error in JavaScript",
    { ...project, "tasks/bad.js": "export const b = {\n  a: 1\n  b: 2\n}" },
    "task_invalid",
    /tasks\/bad\.js:3:3: .*correct the syntax/,
    { file: "tasks/bad.js", line: 3 },
  ],
  [
    "a syntax error in an imported file",
    { ...project, "tasks/two.ts": 'import "../lib/bad";', "lib/bad.ts": "const a = 1;\nlet = 2;" },
    "task_invalid",
    /lib\/bad\.ts:2:1: /,
    { file: "lib/bad.ts", line: 2 },
  ],
  [
    "an enum",
    { ...project, "tasks/bad.ts": "enum A { B }" },
    "task_invalid",
    /tasks\/bad\.ts:1:1: .*enum.*plain JavaScript/,
    { file: "tasks/bad.ts", line: 1 },
  ],
  [
    "a package that is not installed",
    { ...project, "tasks/bad.ts": '\nimport { z } from "zod/v4";\nexport const a = z;' },
    "task_invalid",
    /tasks\/bad\.ts imports "zod".*"dependencies" in package\.json/,
    { file: "tasks/bad.ts", line: 2 },
  ],
  [
    "a file that is not there",
    { ...project, "tasks/bad.ts": 'import "./gone";' },
    "task_invalid",
    /Cannot find module 'tasks\/gone' imported from tasks\/bad\.ts/,
    { file: "tasks/bad.ts" },
  ],
  [
    "an export that is not there",
    { ...project, "tasks/bad.ts": 'import { gone } from "./one";\nconsole.log(gone)' },
    "task_invalid",
    /does not provide an export named 'gone'/,
    { file: "tasks/bad.ts", line: 1 },
  ],
  [
    "a module that throws",
    { ...project, "tasks/bad.ts": "\n\nthrow new Error('no')" },
    "task_invalid",
    /tasks\/bad\.ts:3: no/,
    { file: "tasks/bad.ts", line: 3 },
  ],
  [
    "an unhandled rejection of a module",
    {
      ...project,
      "tasks/bad.ts":
        "Promise.reject(new Error('no')); await new Promise((r) => setTimeout(r, 100))",
    },
    "task_invalid",
    /tasks\/bad\.ts:1: no/,
    { file: "tasks/bad.ts", line: 1 },
  ],
  [
    "a module that never settles",
    { ...project, "tasks/bad.ts": "await new Promise(() => {})" },
    "task_invalid",
    /never settled/,
    {},
  ],
  [
    "two tasks of one id",
    { ...project, "tasks/two.ts": `${taskHead}export const two = ${named("one")};` },
    "duplicate_task_id",
    /"one" is used twice: tasks\/one\.ts \(one\) and tasks\/two\.ts \(two\)/,
    { file: "tasks/two.ts" },
  ],
  [
    "a task exported as default",
    { ...project, "tasks/two.ts": `${taskHead}export default ${named("two")};` },
    "task_invalid",
    /tasks\/two\.ts exports task "two" as default; export it by name/,
    { file: "tasks/two.ts" },
  ],
  [
    "a task without a sandbox",
    {
      ...project,
      "tasks/two.ts": `${taskHead}export const two = task({ id: "two", run: async () => 1 });`,
    },
    "task_invalid",
    /task two: sandbox is missing/,
    { file: "tasks/two.ts", line: 4 },
  ],
  [
    "a sandbox without an image",
    {
      ...project,
      "tasks/two.ts": `${taskHead}export const two = task({ id: "two", sandbox: sandbox("bare"), run: async () => 1 });`,
    },
    "task_invalid",
    /sandbox bare has no image/,
    { file: "tasks/two.ts", line: 4 },
  ],
  [
    "a reserved mount path",
    { ...project, "tasks/two.ts": `${taskHead}\nexport const two = sbx.workspace("/proc/x");` },
    "task_invalid",
    /\/proc is reserved/,
    { file: "tasks/two.ts", line: 5 },
  ],
  [
    "one sandbox id with two meanings",
    {
      ...project,
      "tasks/two.ts": `${taskHead}export const two = task({ id: "two", sandbox: sbx.resources({ cpu: 1 }), run: async () => 1 });`,
    },
    "task_invalid",
    /sandbox "s" of task "two" is defined twice/,
    { file: "tasks/two.ts" },
  ],
  [
    "a queue that nobody declared",
    { ...project, "tasks/two.ts": `${taskHead}export const two = ${named("two", 'queue: "q",')};` },
    "task_invalid",
    /queue "q", which no module declares/,
    { file: "tasks/two.ts" },
  ],
  [
    "one queue with two limits",
    {
      ...project,
      "tasks/two.ts":
        'import { queue } from "@helmr/sdk"; queue({ name: "q" }); queue({ name: "q", concurrencyLimit: 1 });',
    },
    "task_invalid",
    /queue "q" is declared twice/,
    {},
  ],
  [
    "a copied file that is not there",
    {
      ...project,
      "tasks/two.ts": `${taskHead}import { source } from "@helmr/sdk"; export const two = task({ id: "two", sandbox: sandbox("t").image(image("t").from("a").copy("/a", source.file("gone.txt"))), run: async () => 1 });`,
    },
    "task_invalid",
    /image "t" copies gone\.txt, which is not in the project/,
    { file: "tasks/two.ts" },
  ],
  [
    "a brokered secret",
    {
      ...project,
      "tasks/two.ts": `${taskHead}export const two = ${named("two", 'secrets: { A: { env: "A", broker: [{ host: "example.com" }] } },')};`,
    },
    "task_invalid",
    /secret A to be brokered/,
    { file: "tasks/two.ts" },
  ],
  [
    "no task at all",
    { ...project, "tasks/one.ts": "export {}" },
    "task_invalid",
    /no task was found in tasks/,
    {},
  ],
];

for (const [what, files, kind, message, place] of faults)
  test(`${what} is ${kind}`, async () => {
    using guest = new Guest();
    const { code, loaded, outcome } = await index(guest, files);
    assert.deepEqual(
      [code, loaded?.failure, outcome?.kind, outcome?.errorName],
      [1, kind, OUTCOME.failed, kind],
    );
    assert.match(loaded?.message ?? "", message);
    assert.deepEqual(
      { file: loaded?.file, line: loaded?.line },
      { file: undefined, line: undefined, ...place, ...(place.line ? {} : { line: loaded?.line }) },
    );
    assert.equal(
      (JSON.parse(outcome?.errorDetails ?? "{}") as { message: string }).message,
      loaded?.message,
    );
    assert.doesNotMatch(loaded?.message ?? "", new RegExp(guest.root));
  });

test("a project becomes a manifest", async () => {
  const source = `
import { cache, image, queue, sandbox, source, task } from "@helmr/sdk";
const tools = image("tools").from("debian:bookworm");
const img = image("agent").from("node:24-bookworm-slim").workdir("/app").env("A", "1").user("node")
  .run(["npm", "ci"], { cache: [{ mountPath: "/root/.npm", cache: cache("npm") }] })
  .run(["sh", "-c", "true"], { secrets: [{ mountPath: "/run/token", secret: "TOKEN" }] })
  .copy("/app/package.json", source.file("./package.json"))
  .copy("/app/tasks", source.directory("tasks", { ignore: ["*.md"] }))
  .copy("/tools", tools)
  .copyFrom("/bin/x", tools, "/usr/bin/x");
const q = queue({ name: "slow", concurrencyLimit: 2 });
export const full = task({
  id: "full",
  sandbox: sandbox("big").image(img).workspace("/app").resources({ cpu: 4, memory: "4Gi", disk: "10GiB" })
    .network({ internet: { deny: ["10.0.0.0/8"] }, ports: [3000] }),
  maxDuration: "1h", ttl: "1.5s", queue: q, retry: { maxAttempts: 2 },
  secrets: { KEY: { env: "KEY" }, CONF: { file: "conf/key", mode: "0o640", owner: "node" }, CREDS: { dir: "/run/creds" } },
  run: async (event: { n: number }, ctx) => event.n,
});
export { full as again };
`;
  using guest = new Guest();
  const { output, code } = await index(guest, {
    ...project,
    "package.json":
      '{"dependencies":{"@helmr/sdk":"*","a":"1","b":"1"},"optionalDependencies":{"b":"1"}}',
    "tasks/one.ts": source,
  });
  assert.equal(code, 0);
  assert.deepEqual(output, {
    project: "p",
    tasks: [
      {
        id: "full",
        file_path: "tasks/one.ts",
        export_name: "again",
        sandbox_id: "big",
        accepts_payload: true,
        max_duration_seconds: 3600,
        queue: "slow",
        ttl: "1500ms",
        retry: {
          enabled: true,
          max_attempts: 2,
          backoff: { min_ms: 1000, max_ms: 30000, factor: 2, jitter: "full" },
        },
        secrets: [
          { name: "KEY", placement: "env", target: "KEY" },
          { name: "CONF", placement: "file", target: "conf/key", mode: "0640", owner: "node" },
          { name: "CREDS", placement: "dir", target: "/run/creds" },
        ],
      },
    ],
    sandboxes: [
      {
        id: "big",
        image_id: "agent",
        mount_path: "/app",
        cpu: 4,
        memory_mib: 4096,
        disk_mib: 10240,
        network: { internet: true, deny: ["10.0.0.0/8"], ports: [3000] },
      },
    ],
    images: [
      { id: "tools", steps: [{ kind: "from", ref: "debian:bookworm" }] },
      {
        id: "agent",
        steps: [
          { kind: "from", ref: "node:24-bookworm-slim" },
          { kind: "workdir", path: "/app" },
          { kind: "env", key: "A", value: "1" },
          { kind: "user", name: "node" },
          {
            kind: "run",
            argv: ["npm", "ci"],
            cache: [{ mount_path: "/root/.npm", cache: "npm" }],
            secrets: [],
          },
          {
            kind: "run",
            argv: ["sh", "-c", "true"],
            cache: [],
            secrets: [{ mount_path: "/run/token", secret: "TOKEN" }],
          },
          { kind: "copy", dest: "/app/package.json", source: { file: "package.json" } },
          { kind: "copy", dest: "/app/tasks", source: { directory: "tasks", ignore: ["*.md"] } },
          { kind: "copy", dest: "/tools", image: "tools" },
          { kind: "copyFrom", dest: "/bin/x", image: "tools", path: "/usr/bin/x" },
        ],
      },
    ],
    queues: [{ name: "slow", concurrency_limit: 2 }],
    dependencies: ["a"],
  });
});

test("only task files are imported", async () => {
  using guest = new Guest();
  const { code, stdout } = await index(guest, {
    ...project,
    "tasks/_helper.ts": "console.log('helper')",
    "tasks/one.test.ts": "console.log('test')",
    "tasks/types.d.ts": "declare const x: number",
    "tasks/notes.md": "# no",
    "tasks/node_modules/x/index.ts": "console.log('package')",
    "scripts/enum.ts": "enum Unused { A }",
  });
  assert.deepEqual([code, stdout], [0, ""]);
});

test("what a module prints while it is indexed is kept apart from the manifest", async () => {
  using guest = new Guest();
  const { stdout, output } = await index(guest, {
    ...project,
    "tasks/two.ts": "console.log('loading')",
  });
  assert.equal(stdout, "loading\n");
  assert.equal((output as { project: string }).project, "p");
});

test("types are stripped in place, other files are copied, and what is never deployed stays behind", async () => {
  using guest = new Guest();
  const text = `${taskHead}const n: number = 1;\nexport const one = ${named("one")};\nconsole.log(n as unknown);\n`;
  await index(guest, {
    ...project,
    "tasks/one.ts": text,
    "data/a.json": "{}",
    ".env": "KEY=1",
    ".git/config": "",
  });
  const stripped = readFileSync(join(guest.root, "task/tasks/one.ts"), "utf8");
  assert.equal(stripped.length, text.length);
  assert.equal(stripped.indexOf("export const one"), text.indexOf("export const one"));
  assert.doesNotMatch(stripped, /: number| as unknown/);
  assert.equal(readFileSync(join(guest.root, "task/data/a.json"), "utf8"), "{}");
  for (const gone of [".env", ".git/config"])
    assert.throws(() => readFileSync(join(guest.root, "task", gone)), { code: "ENOENT" });
});

test("a dependency that is installed next to the project is found", async () => {
  using guest = new Guest();
  guest.write({
    "project/node_modules/dep/package.json":
      '{"name":"dep","type":"module","exports":"./index.js"}',
    "project/node_modules/dep/index.js": "export const id = 'from-dep';",
  });
  const { output, stderr } = await index(guest, {
    ...project,
    "tasks/one.ts": `${taskHead}import { id } from "dep";\nexport const one = task({ id, sandbox: sbx, run: async () => 1 });`,
  });
  assert.equal(
    (output as { tasks: { id: string }[] } | undefined)?.tasks[0]?.id,
    "from-dep",
    stderr,
  );
});

test("an indexed project runs", async () => {
  using guest = new Guest();
  const { output } = await index(guest, project);
  const [task] = (output as { tasks: { file_path: string; export_name: string }[] }).tasks;
  const ran = await guest.run({ module: task?.file_path ?? "", export: task?.export_name ?? "" });
  assert.equal(ran.output, 1);
});
