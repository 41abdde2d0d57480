import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { OUTCOME } from "../src/messages.ts";
import { Guest, writeFiles } from "./guest.ts";
import type { Ended, Files } from "./guest.ts";
import { taskHead } from "./tasks.ts";

/** Source of a task's config, with these members before its own. */
const config = (id: string, more = "sandbox: sbx,"): string =>
  `task({ id: "${id}", ${more} run: async () => 1 })`;

const helmrConfig = (members: string): string =>
  `import { defineConfig } from "@helmr/sdk";\nexport default defineConfig({ ${members} });\n`;

const project: Files = {
  "package.json": '{"private":true,"type":"module"}',
  "helmr.config.ts": helmrConfig('project: "p", dirs: ["./tasks"]'),
  "tasks/one.ts": `${taskHead}export const one = ${config("one")};\n`,
};

function index(guest: Guest, files: Files): Promise<Ended> {
  const source = join(guest.root, "project");
  writeFiles(source, files);
  const options = { source, output: join(guest.root, "task") };
  return guest.run({ mode: "index", options: JSON.stringify(options) });
}

const without = (name: string): Files =>
  Object.fromEntries(Object.entries(project).filter(([key]) => key !== name));
const withConfig = (text: string): Files => ({ ...project, "helmr.config.ts": text });
const withPackage = (text: string): Files => ({ ...project, "package.json": text });
const withFile = (text: string, file = "tasks/bad.ts"): Files => ({ ...project, [file]: text });
/** A second task file: four lines of head, then this. */
const withTask = (text: string): Files => withFile(`${taskHead}${text}`, "tasks/two.ts");
const withTwo = (members: string): Files =>
  withTask(`export const two = ${config("two", members)};`);

interface Row {
  what: string;
  files: Files;
  kind: string;
  says: RegExp;
  /** Where the fault is said to be: a file, a file and a line, or nowhere. */
  at?: string;
}

const copying = 'sandbox("t").image(image("t").from("a").copy("/a", source.file("gone.txt")))';
const brokered = 'secrets: { A: { env: "A", broker: [{ host: "example.com" }] } },';

const faults: Row[] = [
  /* the project */
  {
    what: "no config file",
    files: without("helmr.config.ts"),
    kind: "config_invalid",
    says: /no helmr\.config\.ts: add one/,
    at: "helmr.config.ts",
  },
  {
    what: "no package.json",
    files: without("package.json"),
    kind: "config_invalid",
    says: /no package\.json: add one/,
    at: "package.json",
  },
  {
    what: "a broken package.json",
    files: withPackage("{"),
    kind: "config_invalid",
    says: /package\.json is not JSON/,
    at: "package.json",
  },
  {
    what: "a package.json that is a list",
    files: withPackage("[]"),
    kind: "config_invalid",
    says: /must be a JSON object/,
    at: "package.json",
  },
  {
    what: "a config that is not one",
    files: withConfig("export default {}"),
    kind: "config_invalid",
    says: /must default-export defineConfig/,
    at: "helmr.config.ts",
  },
  {
    what: "a config with an unknown key",
    files: withConfig(helmrConfig('project: "p", dirs: ["tasks"], dir: 1')),
    kind: "config_invalid",
    says: /helmr\.config\.ts:2: config\.dir is unknown/,
    at: "helmr.config.ts:2",
  },
  {
    what: "a syntax error in the config",
    files: withConfig("export default {"),
    kind: "config_invalid",
    says: /helmr\.config\.ts:1:/,
    at: "helmr.config.ts:1",
  },
  {
    what: "a directory that is not there",
    files: withConfig(helmrConfig('project: "p", dirs: ["nowhere"]')),
    kind: "config_invalid",
    says: /dirs names nowhere/,
  },
  {
    what: "no task at all",
    files: withFile("export {}", "tasks/one.ts"),
    kind: "task_invalid",
    says: /no task was found in tasks/,
  },

  /* a module */
  {
    what: "a syntax error in a task",
    files: withFile("const a: number = 1;\nconst b = ;\n"),
    kind: "task_invalid",
    says: /tasks\/bad\.ts:2:11: .*correct the syntax/,
    at: "tasks/bad.ts:2",
  },
  {
    what: "a syntax error in JavaScript",
    files: withFile("export const b = {\n  a: 1\n  b: 2\n}", "tasks/bad.js"),
    kind: "task_invalid",
    says: /tasks\/bad\.js:3:3: .*correct the syntax/,
    at: "tasks/bad.js:3",
  },
  {
    what: "a syntax error that only a module has, in an imported file",
    files: { ...withFile('import "../lib/bad";'), "lib/bad.ts": "const a = 1;\nlet = 2;" },
    kind: "task_invalid",
    says: /lib\/bad\.ts:2:1: /,
    at: "lib/bad.ts:2",
  },
  {
    what: "an enum",
    files: withFile("enum A { B }"),
    kind: "task_invalid",
    says: /tasks\/bad\.ts:1:1: .*enum.*plain JavaScript/,
    at: "tasks/bad.ts:1",
  },
  {
    what: "a package that is not installed",
    files: withFile('\nimport { z } from "zod/v4";\nexport const a = z;'),
    kind: "task_invalid",
    says: /tasks\/bad\.ts imports "zod".*"dependencies" in package\.json/,
    at: "tasks/bad.ts:2",
  },
  {
    what: "a file that is not there",
    files: withFile('import "./gone";'),
    kind: "task_invalid",
    says: /Cannot find module 'tasks\/gone' imported from tasks\/bad\.ts/,
    at: "tasks/bad.ts",
  },
  {
    what: "an export that is not there",
    files: withFile('import { gone } from "./one";\nconsole.log(gone)'),
    kind: "task_invalid",
    says: /does not provide an export named 'gone'/,
    at: "tasks/bad.ts:1",
  },
  {
    what: "a module that throws",
    files: withFile("\n\nthrow new Error('no')"),
    kind: "task_invalid",
    says: /tasks\/bad\.ts:3: no/,
    at: "tasks/bad.ts:3",
  },
  {
    what: "an unhandled rejection of a module",
    files: withFile("void Promise.reject(new Error('no'));\nawait new Promise(setImmediate);"),
    kind: "task_invalid",
    says: /tasks\/bad\.ts:1: no/,
    at: "tasks/bad.ts:1",
  },
  {
    what: "a module that never settles",
    files: withFile("await new Promise(() => {})"),
    kind: "task_invalid",
    says: /never settled/,
  },

  /* a task */
  {
    what: "two tasks of one id",
    files: withTask(`export const two = ${config("one")};`),
    kind: "duplicate_task_id",
    says: /"one" is used twice: tasks\/one\.ts \(one\) and tasks\/two\.ts \(two\)/,
    at: "tasks/two.ts",
  },
  {
    what: "a task exported as default",
    files: withTask(`export default ${config("two")};`),
    kind: "task_invalid",
    says: /tasks\/two\.ts exports task "two" as default; export it by name/,
    at: "tasks/two.ts",
  },
  {
    what: "a task without a sandbox",
    files: withTwo(""),
    kind: "task_invalid",
    says: /task two: sandbox is missing/,
    at: "tasks/two.ts:4",
  },
  {
    what: "a sandbox without an image",
    files: withTwo('sandbox: sandbox("bare"),'),
    kind: "task_invalid",
    says: /sandbox bare has no image/,
    at: "tasks/two.ts:4",
  },
  {
    what: "a reserved mount path",
    files: withTwo('sandbox: sbx.workspace("/proc/x"),'),
    kind: "task_invalid",
    says: /\/proc is reserved/,
    at: "tasks/two.ts:4",
  },
  {
    what: "one sandbox id with two meanings",
    files: withTwo("sandbox: sbx.resources({ cpu: 1 }),"),
    kind: "task_invalid",
    says: /sandbox "s" of task "two" is defined twice/,
    at: "tasks/two.ts",
  },
  {
    what: "a queue that nobody declared",
    files: withTwo('sandbox: sbx, queue: "q",'),
    kind: "task_invalid",
    says: /queue "q", which no module declares/,
    at: "tasks/two.ts",
  },
  {
    what: "one stream in two directions",
    files: {
      ...project,
      "tasks/b.ts":
        'import { streams } from "@helmr/sdk";\nstreams.input("s");\nstreams.output("s");',
    },
    kind: "task_invalid",
    says: /stream "s" is declared as input and as output/,
  },
  {
    what: "one queue with two limits",
    files: withFile(
      'import { queue } from "@helmr/sdk";\n[1, 2].map((n) => queue({ name: "q", concurrencyLimit: n }));',
    ),
    kind: "task_invalid",
    says: /queue "q" is declared twice/,
  },
  {
    what: "a copied file that is not there",
    files: withTask(
      `import { source } from "@helmr/sdk";\nexport const two = ${config("two", `sandbox: ${copying},`)};`,
    ),
    kind: "task_invalid",
    says: /image "t" copies gone\.txt, which is not in the project/,
    at: "tasks/two.ts",
  },
  {
    what: "a brokered secret",
    files: withTwo(`sandbox: sbx, ${brokered}`),
    kind: "task_invalid",
    says: /secret A to be brokered/,
    at: "tasks/two.ts",
  },
];

for (const { what, files, kind, says, at } of faults)
  test(`${what} is ${kind}`, async () => {
    using guest = new Guest();
    const { code, loaded, outcome } = await index(guest, files);
    assert.deepEqual([code, outcome?.kind, outcome?.errorName], [1, OUTCOME.failed, kind]);
    const { failure, message = "", file, line } = loaded ?? {};
    assert.equal(failure, kind);
    assert.match(message, says);
    assert.equal([file, line].filter((part) => part !== undefined).join(":") || undefined, at);
    assert.doesNotMatch(message, new RegExp(guest.root));
    const details = JSON.parse(outcome?.errorDetails ?? "{}") as object;
    assert.deepEqual({ file, line, ...details }, { failure_kind: kind, message, file, line });
  });

test("a project becomes a manifest", async () => {
  const source = `
import { cache, image, queue, sandbox, source, streams, task } from "@helmr/sdk";
const tools = image("tools").from("debian:bookworm");
const img = image("agent").from("node:24-bookworm-slim").workdir("/app").env("A", "1").user("node")
  .run(["npm", "ci"], { cache: [{ mountPath: "/root/.npm", cache: cache("npm") }] })
  .run(["sh", "-c", "true"], { secrets: [{ mountPath: "/run/token", secret: "TOKEN" }] })
  .copy("/app/package.json", source.file("./package.json"))
  .copy("/app/tasks", source.directory("tasks", { ignore: ["*.md"] }))
  .copy("/tools", tools)
  .copyFrom("/bin/x", tools, "/usr/bin/x");
const q = queue({ name: "slow", concurrencyLimit: 2 });
streams.output("log");
export const full = task({
  id: "full",
  sandbox: sandbox("big").image(img).workspace("/app")
    .resources({ cpu: 4, memory: "4Gi", disk: "10GiB" })
    .network({ internet: { deny: ["10.0.0.0/8"] }, ports: [3000] }),
  maxDuration: "1h", ttl: "1.5s", queue: q, retry: { maxAttempts: 2 },
  secrets: {
    KEY: { env: "KEY" },
    CONF: { file: "conf/key", mode: "0o640", owner: "node" },
    CREDS: { dir: "/run/creds" },
  },
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
        schedules: [],
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
    streams: [{ name: "log", direction: "output" }],
    dependencies: ["a"],
  });
});

test("a stream that several modules declare is one, and tells of its schema", async () => {
  using guest = new Guest();
  const schema = (rule: string): string =>
    `{ schema: { "~standard": { version: 1, vendor: "v", validate: (value) => ${rule} } } }`;
  const fingerprint = async (rule: string): Promise<unknown[]> => {
    const { output } = await index(guest, {
      ...project,
      "tasks/a.ts": 'import { streams } from "@helmr/sdk";\nstreams.input("s");',
      "tasks/b.ts": `import { streams } from "@helmr/sdk";\nstreams.input("s", ${schema(rule)});`,
    });
    return (output as { streams: unknown[] }).streams;
  };
  const [one, again, other] = [
    await fingerprint("({ value })"),
    await fingerprint("({ value })"),
    await fingerprint("({ value: 1 })"),
  ];
  const [{ schema_fingerprint: seen, ...stream }] = one as [{ schema_fingerprint: string }];
  assert.deepEqual([one.length, stream], [1, { name: "s", direction: "input" }]);
  assert.match(seen, /^sha256:[0-9a-f]{64}$/);
  assert.deepEqual(one, again);
  assert.notDeepEqual(one, other);
});

test("a schema that can tell what it takes tells it, and one that cannot is no fault", async () => {
  const standard = 'version: 1, vendor: "v", validate: (value) => ({ value })';
  const one = (id: string, schema: string): string =>
    `export const ${id} = task({ id: "${id}", sandbox: s, payload: ${schema}, run: async () => 1 });\n`;
  using guest = new Guest();
  const { output, code } = await index(guest, {
    ...project,
    "tasks/one.ts":
      'import { image, sandbox, task } from "@helmr/sdk";\n' +
      'const s = sandbox("s").image(image("i").from("debian:bookworm"));\n' +
      one("a", `{ "~standard": { ${standard}, jsonSchema: { input: (o) => o } } }`) +
      one("b", `{ "~standard": { ${standard} }, toJSONSchema: (o) => o }`) +
      one("c", `{ "~standard": { ${standard} }, toJsonSchema: () => ({ type: "null" }) }`) +
      one("d", `{ "~standard": { ${standard} }, toJsonSchema: () => { throw new Error("no"); } }`) +
      one("e", `{ "~standard": { ${standard} } }`),
  });
  assert.equal(code, 0);
  const schemas = (output as { tasks: { payload_schema?: object }[] }).tasks.map(
    ({ payload_schema }) => payload_schema,
  );
  assert.deepEqual(schemas, [
    { target: "draft-2020-12" },
    { io: "input" },
    { type: "null" },
    undefined,
    undefined,
  ]);
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

test("types are stripped in place and what is never deployed stays behind", async () => {
  using guest = new Guest();
  const typed = "const n: number = 1;\nconsole.log(n as unknown);";
  const text = `${taskHead}${typed}\nexport const one = ${config("one")};\n`;
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
    "tasks/one.ts": `${taskHead}import { id } from "dep";\nexport const one = ${config('" + id + "')};`,
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

test("what a task schedules is in the manifest", async () => {
  using guest = new Guest();
  const { output, code } = await index(
    guest,
    withTask(`
import { schedules } from "@helmr/sdk";
export const two = schedules.task({ id: "two", sandbox: sbx, run: async () => 1,
  cron: { pattern: "30 8 * * MON-FRI", timezone: "Europe/Berlin" },
  secretBindings: { TOKEN: "vault:OTHER" } });
export const three = schedules.task({ id: "three", sandbox: sbx, run: async () => 1 });
`),
  );
  assert.equal(code, 0);
  const { tasks } = output as { tasks: { id: string; schedules: object[] }[] };
  const byId = Object.fromEntries(tasks.map(({ id, ...rest }) => [id, rest]));
  assert.deepEqual(byId.two?.schedules, [
    {
      cron: "30 8 * * MON-FRI",
      timezone: "Europe/Berlin",
      secret_bindings: { TOKEN: "vault:OTHER" },
    },
  ]);
  assert.deepEqual(byId.three?.schedules, []);
});

test("a schedule that cannot be is refused with its place", async () => {
  using guest = new Guest();
  const { loaded } = await index(
    guest,
    withTask(`
import { schedules } from "@helmr/sdk";
export const two = schedules.task({ id: "two", sandbox: sbx, cron: "* * *", run: async () => 1 });
`),
  );
  assert.equal(loaded?.failure, "task_invalid");
  assert.match(loaded?.message ?? "", /task two: cron must have five fields/);
  assert.equal(loaded?.file, "tasks/two.ts");
});
