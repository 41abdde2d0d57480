import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decodeBody } from "../src/codec.ts";
import { LEVEL, OUTCOME } from "../src/messages.ts";
import type { AHello } from "../src/messages.ts";
import { Guest, nodeVersion } from "./guest.ts";
import { taskHead, taskWith } from "./tasks.ts";

const schema = `payload: { "~standard": { version: 1, vendor: "test", validate: (value) =>
  typeof value?.count === "number" ? { value: { count: value.count + 1 } }
  : { issues: [{ message: "must be a number", path: ["count"] }] } } },`;

test("the adapter says hello with its Node before it is told anything", async () => {
  using guest = new Guest(taskWith("async () => 1"));
  const program = guest.start({});
  const hello = decodeBody<AHello>("A_HELLO", (await program.until("A_HELLO")).body);
  await program.ended;
  assert.equal(hello.nodeVersion, nodeVersion);
  assert.equal(hello.pid, program.child.pid);
});

test("what a task returns is its output", async () => {
  using guest = new Guest(
    taskWith("async (ctx) => ({ path: ctx.workspace.path, cwd: process.cwd() })"),
  );
  const { code, outcome, output, loaded } = await guest.run();
  assert.equal(code, 0);
  assert.equal(outcome?.kind, OUTCOME.succeeded);
  assert.deepEqual(output, { path: guest.workspace, cwd: guest.workspace });
  assert.equal(loaded?.acceptsPayload, 0);
});

test("variables are there before the module is loaded, and children have them", async () => {
  using guest = new Guest({
    "tasks/task.ts": `import { execFileSync } from "node:child_process";
${taskHead}
const early = process.env.API_KEY;
export const subject = task({ id: "subject", sandbox: sbx, run: async () =>
  [early, execFileSync("printenv", ["API_KEY"]).toString(), process.env.LINES] });`,
  });
  const program = guest.start({}, undefined, { API_KEY: "first", LINES: "a\nb" });
  const { output, outcome } = await program.ended;
  assert.equal(outcome?.kind, OUTCOME.succeeded);
  assert.deepEqual(output, ["first", "first\n", "a\nb"]);
});

test("a task that returns nothing has no output", async () => {
  using guest = new Guest(taskWith("() => undefined"));
  const { code, outcome, output } = await guest.run();
  assert.deepEqual([code, outcome?.kind, output], [0, OUTCOME.succeeded, undefined]);
});

test("the context names run, attempt, lease, session, task and deployment", async () => {
  const run =
    "async (ctx) => [ctx.run.id, ctx.run.attemptId, ctx.run.attemptNumber, ctx.run.runLeaseId, " +
    "ctx.run.snapshotVersion, ctx.session.id, ctx.task.id, ctx.deployment, ctx.workspace.id]";
  using guest = new Guest(taskWith(run));
  const { output } = await guest.run({
    runId: "r",
    attemptId: "a",
    attempt: 3,
    leaseId: "l",
    sessionId: "s",
    taskId: "subject",
    deploymentId: "d",
    deploymentVersion: "20260101.1",
    workspaceId: "w",
  });
  assert.deepEqual(output, [
    "r",
    "a",
    3,
    "l",
    0,
    "s",
    "subject",
    { id: "d", version: "20260101.1" },
    "w",
  ]);
});

test("a schema's output is what run is given", async () => {
  using guest = new Guest(taskWith("async (payload) => payload", schema));
  const { output, loaded } = await guest.run({}, '{"count":1}');
  assert.deepEqual(output, { count: 2 });
  assert.equal(loaded?.acceptsPayload, 1);
});

test("a payload that the schema refuses is named and the task is not called", async () => {
  using guest = new Guest(taskWith("async () => console.log('called')", schema));
  const { code, stdout, stderr, outcome } = await guest.run({}, '{"count":"x"}');
  assert.deepEqual([code, stdout, outcome?.kind], [1, "", OUTCOME.payload_invalid]);
  assert.equal(outcome?.errorMessage, "the payload of subject: count: must be a number");
  assert.deepEqual(JSON.parse(outcome?.errorDetails ?? ""), {
    issues: [{ path: ["count"], message: "must be a number" }],
  });
  assert.match(stderr, /count: must be a number/);
});

test("without a schema two parameters get the payload as it was sent", async () => {
  using guest = new Guest(taskWith("async (payload, ctx) => payload"));
  assert.deepEqual((await guest.run({}, '{"a":[1,null]}')).output, { a: [1, null] });
  assert.deepEqual((await guest.run()).output, {});
});

test("without a schema one parameter takes no payload", async () => {
  using guest = new Guest(taskWith("async (ctx) => ctx.task.id"));
  for (const nothing of [undefined, "null", "{}"])
    assert.equal((await guest.run({ taskId: "subject" }, nothing)).output, "subject");
  const { outcome } = await guest.run({}, '{"a":1}');
  assert.equal(outcome?.kind, OUTCOME.payload_invalid);
});

test("a payload and an output of 16 MiB go through", async () => {
  using guest = new Guest(taskWith("async (payload, ctx) => payload"));
  const text = "x".repeat(16 * 1024 * 1024 - 2);
  const { output, outcome } = await guest.run({}, JSON.stringify(text));
  assert.equal(output, text);
  assert.equal(outcome?.outputLen, 16n * 1024n * 1024n);
});

const invalidOutputs: [string, string][] = [
  ["over 16 MiB", "async () => 'x'.repeat(16 * 1024 * 1024)"],
  ["a function", "async () => () => 1"],
  ["a bigint", "async () => 1n"],
  ["a cycle", "async () => { const a = {}; a.a = a; return a }"],
];

for (const [what, run] of invalidOutputs)
  test(`an output that is ${what} is refused`, async () => {
    using guest = new Guest(taskWith(run));
    const { code, outcome } = await guest.run();
    assert.deepEqual([code, outcome?.kind], [1, OUTCOME.output_invalid]);
  });

test("a throw fails the run with a stack in the author's own file", async () => {
  const source = `${taskHead.trim()}
interface Event { n: number }
export const subject = task({ id: "subject", sandbox: sbx, run: async (ctx) => {
  const event: Event = { n: 1 };
  throw new RangeError(\`bad \${event.n}\`);
} });`;
  using guest = new Guest({ "tasks/task.ts": source });
  const { code, stderr, outcome } = await guest.run();
  assert.equal(code, 1);
  assert.equal(outcome?.kind, OUTCOME.failed);
  assert.deepEqual([outcome?.errorName, outcome?.errorMessage], ["RangeError", "bad 1"]);
  assert.match(outcome?.errorStack ?? "", /at Object\.run \(tasks\/task\.ts:6:9\)/);
  assert.match(stderr, /RangeError: bad 1\n\s+at Object\.run \(tasks\/task\.ts:6:9\)/);
  assert.doesNotMatch(outcome?.errorStack ?? "", /adapter/);
});

test("anything may be thrown", async () => {
  using guest = new Guest(taskWith("async () => { throw { code: 7 } }"));
  assert.equal((await guest.run()).outcome?.errorMessage, "{ code: 7 }");
});

test("process.exit ends the run with its code and no outcome", async () => {
  using guest = new Guest(
    taskWith("async () => { console.log('x'.repeat(300000)); process.exit(3) }"),
  );
  const { code, outcome, stdout } = await guest.run();
  assert.deepEqual([code, outcome, stdout.length], [3, undefined, 300_001]);
});

const escapes: [string, string, RegExp][] = [
  [
    "an unhandled rejection",
    "() => { Promise.reject(new Error('lost')); return new Promise(() => setInterval(() => 0, 9)) }",
    /lost/,
  ],
  [
    "an exception in a callback",
    "() => new Promise(() => setTimeout(() => { throw new Error('late') }, 1))",
    /late/,
  ],
  ["a promise that nothing can settle", "() => new Promise(() => {})", /never settled/],
];

for (const [what, run, message] of escapes)
  test(`${what} fails the run`, async () => {
    using guest = new Guest(taskWith(run));
    const { code, outcome, stderr } = await guest.run();
    assert.deepEqual([code, outcome?.kind], [1, OUTCOME.failed]);
    assert.match(outcome?.errorMessage ?? "", message);
    assert.match(stderr, message);
  });

test("a task may handle uncaught exceptions itself", async () => {
  const run = `() => new Promise((resolve) => {
    process.on("uncaughtException", (error) => resolve(error.message));
    setTimeout(() => { throw new Error("mine") }, 1);
  })`;
  using guest = new Guest(taskWith(run));
  assert.equal((await guest.run()).output, "mine");
});

test("a task is over when its promise settles, whatever else is running", async () => {
  using guest = new Guest(taskWith("async () => { setInterval(() => 0, 1000); return 1 }"));
  assert.equal((await guest.run()).output, 1);
});

test("a cancel aborts the signal with its reason", async () => {
  const run = `(ctx) => new Promise((resolve, reject) => {
    ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason));
    setInterval(() => 0, 1000);
    console.log("ready");
  })`;
  using guest = new Guest(taskWith(run));
  const program = guest.start({});
  await program.until("A_LOADED");
  program.send("A_CANCEL", { reason: "asked to", graceMs: 1000n });
  const { outcome } = await program.ended;
  assert.deepEqual([outcome?.errorName, outcome?.errorMessage], ["AbortError", "asked to"]);
});

test("50 MB of output arrive whole and in order", async () => {
  const run = `async () => {
    for (let i = 0; i < 500; i++) process.stdout.write(String(i).padStart(100000, "."));
  }`;
  using guest = new Guest(taskWith(run));
  const { stdout, code } = await guest.run();
  assert.equal(code, 0);
  assert.equal(stdout.length, 50_000_000);
  for (let i = 0; i < 500; i++)
    assert.equal(
      Number(stdout.slice(i * 100_000 + 99_990, (i + 1) * 100_000).replaceAll(".", "")),
      i,
    );
});

test("a child of the task shares its standard output", async () => {
  const run = `async () => {
    const { execFileSync } = await import("node:child_process");
    execFileSync("sh", ["-c", "head -c 1000000 /dev/zero | tr '\\\\0' x"], { stdio: "inherit" });
  }`;
  using guest = new Guest(taskWith(run));
  assert.equal((await guest.run()).stdout, "x".repeat(1_000_000));
});

test("a log entry is an event and a line", async () => {
  const run = `async (ctx) => {
    ctx.log.info("a", 1, { b: [2] });
    ctx.log.error("went\\nwrong");
    logger.debug("with attributes", { c: 3 });
    logger.warn(new Map([[1, 2]]));
  }`;
  using guest = new Guest(taskWith(run));
  const { stdout, stderr, logs } = await guest.run();
  assert.equal(stdout, "info a 1 { b: [ 2 ] }\ndebug with attributes\nwarn Map(1) { 1 => 2 }\n");
  assert.equal(stderr, "error went\\nwrong\n");
  assert.deepEqual(
    logs.map(({ level, message, attributes }) => [level, message, attributes]),
    [
      [LEVEL.info, "a 1 { b: [ 2 ] }", undefined],
      [LEVEL.error, "went\nwrong", undefined],
      [LEVEL.debug, "with attributes", '{"c":3}'],
      [LEVEL.warn, "Map(1) { 1 => 2 }", undefined],
    ],
  );
});

test("a log entry over 64 KiB is cut between characters and marked", async () => {
  using guest = new Guest(taskWith(`async (ctx) => ctx.log.info("é".repeat(40000) + "\\0")`));
  const [entry] = (await guest.run()).logs;
  assert.ok(Buffer.byteLength(entry?.message ?? "") <= 65_536);
  assert.match(entry?.message ?? "", /^é+…\[truncated\]$/);
});

test("nothing of the platform is in the task's environment or arguments", async () => {
  using guest = new Guest(
    taskWith("async () => [Object.keys(process.env), process.argv.length, process.execArgv]"),
  );
  assert.deepEqual((await guest.run({}, undefined)).output, [["PATH"], 2, []]);
});

const loadFailures: [string, Record<string, string>, string, RegExp][] = [
  [
    "a module that throws",
    { "tasks/task.ts": "\nthrow new Error('at load')" },
    "task_failed",
    /^Error: at load$/,
  ],
  [
    "an export that is no task",
    { "tasks/task.ts": "export const subject = 1" },
    "task_failed",
    /does not export a task as "subject"/,
  ],
  [
    "a package that is not there",
    { "tasks/task.ts": 'import "left-pad"' },
    "dependency_missing",
    /tasks\/task\.ts imports "left-pad"/,
  ],
  [
    "a top-level await that never settles",
    { "tasks/task.ts": "await new Promise(() => {})" },
    "task_failed",
    /never settled/,
  ],
];

for (const [what, files, failure, message] of loadFailures)
  test(`${what} is a failure to load`, async () => {
    using guest = new Guest(files);
    const { code, loaded, outcome } = await guest.run();
    assert.deepEqual([code, loaded?.failure, outcome], [1, failure, undefined]);
    assert.match(loaded?.message ?? "", message);
  });

test("a failure to load names file and line", async () => {
  using guest = new Guest({ "tasks/task.ts": "\nthrow new Error('at load')" });
  const { loaded } = await guest.run();
  assert.deepEqual([loaded?.file, loaded?.line], ["tasks/task.ts", 2]);
});

test("the example greets and leaves a file in the workspace", async () => {
  const example = join(import.meta.dirname, "../../../examples/hello-world/tasks/hello-world.ts");
  using guest = new Guest({ "tasks/task.ts": readFileSync(example, "utf8") });
  const { output, stdout } = await guest.run({ export: "helloWorld" }, '{"name":"Ada"}');
  assert.deepEqual(output, { greeting: "Hello, Ada!", file: "greeting.txt" });
  assert.match(stdout, /^Hello, Ada!\n/);
  assert.equal(readFileSync(join(guest.workspace, "greeting.txt"), "utf8"), "Hello, Ada!\n");
});
