// Waits of a running task, with the test as agent and server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OUTCOME } from "../src/messages.ts";
import type { AOp } from "../src/messages.ts";
import { Guest } from "./guest.ts";
import type { Program } from "./guest.ts";
import { taskWith } from "./tasks.ts";

const bodyOf = (op: AOp): Record<string, unknown> =>
  JSON.parse(Buffer.from(op.body).toString()) as Record<string, unknown>;

function answer(program: Program, op: AOp, body: unknown, status = 0): void {
  program.send("A_RESULT", { op: op.op, status, body: Buffer.from(JSON.stringify(body)) });
}

/** The whole of a task that makes one operation, which is answered so. */
async function settled(run: string, body: unknown, status = 0) {
  using guest = new Guest(taskWith(run));
  const program = guest.start({});
  const op = await program.next<AOp>("A_OP");
  answer(program, op, body, status);
  return { op, asked: bodyOf(op), ...(await program.ended) };
}

test("a person's answer is what the task goes on with", async () => {
  const { op, asked, output } = await settled(
    `async (ctx) => ctx.wait.human({ displayText: "Deploy?", timeout: "2h", tags: ["a"],
       metadata: { pr: 7 } })`,
    { condition: "completed", data: { approved: true } },
  );
  assert.deepEqual([op.op, op.kind], [1n, "wait.open"]);
  assert.deepEqual(asked, {
    kind: "token",
    timeout: "7200s",
    metadata: { pr: 7, prompt: "Deploy?", form: { version: 1, type: "approval" } },
    tags: ["a"],
  });
  assert.deepEqual(output, { approved: true });
});

test("an answer without a value is null", async () => {
  const { output } = await settled(`async (ctx) => [await ctx.wait.human()]`, {
    condition: "completed",
  });
  assert.deepEqual(output, [null]);
});

const uncaught: [string, object, string, string][] = [
  [
    "a wait that expired",
    { condition: "expired" },
    "WaitTimeoutError",
    "the wait timed out after 60s",
  ],
  ["a cancelled wait", { condition: "cancelled", reason: "no" }, "WaitCancelledError", "no"],
  ["a failed wait", { condition: "failed", message: "bad" }, "Error", "bad"],
];

for (const [what, settlement, name, message] of uncaught)
  test(`${what}, uncaught, is named in the outcome`, async () => {
    const { outcome, code } = await settled(
      `async (ctx) => ctx.wait.human({ timeout: "1m" })`,
      settlement,
    );
    assert.deepEqual([code, outcome?.kind], [1, OUTCOME.failed]);
    assert.deepEqual([outcome?.errorName, outcome?.errorMessage], [name, message]);
  });

test("an answer that the schema refuses is named with its issues", async () => {
  const { outcome } = await settled(
    `async (ctx) => ctx.wait.human({ schema: { "~standard": { version: 1, vendor: "t",
       validate: () => ({ issues: [{ message: "must be there", path: ["x"] }] }) } } })`,
    { condition: "completed", data: {} },
  );
  assert.equal(outcome?.errorName, "PayloadSchemaValidationError");
  assert.equal(outcome?.errorMessage, "the answer: x: must be there");
});

test("a timer is sent as a duration or an instant", async () => {
  const due = { condition: "completed" };
  const instant = "2030-01-02T03:04:05.000Z";
  const runs: [string, object][] = [
    ["ctx.wait.for({ minutes: 1.5 })", { kind: "timer", duration: "90s" }],
    ["timers.waitFor(0.25).unwrap()", { kind: "timer", duration: "250ms" }],
    [`ctx.wait.until(new Date("${instant}"))`, { kind: "timer", until: instant }],
    [`timers.waitUntil("${instant}").unwrap()`, { kind: "timer", until: instant }],
  ];
  for (const [call, wanted] of runs) {
    const { asked, outcome } = await settled(`async (ctx) => { await ${call} }`, due);
    assert.deepEqual(asked, wanted);
    assert.equal(outcome?.kind, OUTCOME.succeeded);
  }
});

test("a token is made through the run and waited for", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const token = await tokens.create({ timeout: "1d", idempotencyKey: "k" });
      const { ok, data } = await token.wait({ idleTimeout: "0s" });
      return { url: token.callbackUrl, key: token.publicAccessToken, at: token.timeoutAt, ok, data };
    }`),
  );
  const program = guest.start({});
  const create = await program.next<AOp>("A_OP");
  assert.deepEqual([create.kind, bodyOf(create)], [
    "token.create",
    { timeout: "86400s", idempotency_key: "k" },
  ]);
  answer(program, create, {
    id: "t1",
    status: "pending",
    timeout_at: "2030-01-01T00:00:00.000Z",
    created_at: "2026-01-01T00:00:00.000Z",
    updated_at: "2026-01-01T00:00:00.000Z",
    callback_url: "https://helmr.example/callback",
    public_access_token: "hlmr_pat_x",
  });
  const wait = await program.next<AOp>("A_OP");
  assert.deepEqual([wait.op, wait.kind, bodyOf(wait)], [
    2n,
    "wait.open",
    { kind: "token", token_id: "t1", idle_timeout: "0s" },
  ]);
  answer(program, wait, { condition: "completed", data: 5 });
  assert.deepEqual((await program.ended).output, {
    url: "https://helmr.example/callback",
    key: "hlmr_pat_x",
    at: "2030-01-01T00:00:00.000Z",
    ok: true,
    data: 5,
  });
});

test("a second wait is refused and the first goes on", async () => {
  const { output } = await settled(
    `async (ctx) => {
      const first = ctx.wait.human();
      const second = await ctx.wait.for("1s").catch((error) => error.name);
      return [second, await first];
    }`,
    { condition: "completed", data: 1 },
  );
  assert.deepEqual(output, ["ConcurrentWaitError", 1]);
});

test("after one wait there can be another", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => [await ctx.wait.human(), await ctx.wait.human()]`),
  );
  const program = guest.start({});
  for (const data of ["a", "b"])
    answer(program, await program.next<AOp>("A_OP"), { condition: "completed", data });
  assert.deepEqual((await program.ended).output, ["a", "b"]);
});

test("a refused operation rejects with the server's words and code", async () => {
  const { output } = await settled(
    `(ctx) => tokens.wait("t").unwrap().catch((error) => [error.name, error.message, error.code])`,
    { code: "token_not_found", message: "there is no token t" },
    1,
  );
  assert.deepEqual(output, ["Error", "there is no token t", "token_not_found"]);
});

test("a cancelled run's wait rejects, and so does the next", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const first = await ctx.wait.human().catch((error) => [error.name, error.message]);
      const second = await ctx.wait.for("1s").catch((error) => error.name);
      return [first, second, ctx.signal.aborted];
    }`),
  );
  const program = guest.start({});
  const op = await program.next<AOp>("A_OP");
  program.send("A_CANCEL", { reason: "not wanted", graceMs: 1000 });
  const { output } = await program.ended;
  assert.equal(op.op, 1n);
  assert.deepEqual(output, [["WaitCancelledError", "not wanted"], "WaitCancelledError", true]);
});

test("an outcome waits for operations that nobody awaited", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      void tokens.create();
      setTimeout(() => ctx.log.info("later"), 1);
    }`),
  );
  const program = guest.start({});
  const op = await program.next<AOp>("A_OP");
  await program.until("A_LOG");
  answer(program, op, { id: "t", created_at: "2026-01-01", updated_at: "2026-01-01" });
  const { frames, code } = await program.ended;
  assert.equal(code, 0);
  assert.deepEqual(
    frames.map(({ name }) => name),
    ["A_HELLO", "A_LOADED", "A_OP", "A_LOG", "A_OUTCOME"],
  );
});

test("more than 128 operations at once are refused", async () => {
  using guest = new Guest(
    taskWith(`async () => {
      const made = Array.from({ length: 129 }, () => tokens.create());
      made[128].catch((error) => console.log(error.message));
    }`),
  );
  const program = guest.start({});
  for (let i = 1; i <= 128; i++) {
    const op = await program.next<AOp>("A_OP");
    assert.equal(op.op, BigInt(i));
    answer(program, op, { id: "t", created_at: "2026-01-01", updated_at: "2026-01-01" });
  }
  const { stdout, outcome } = await program.ended;
  assert.equal(outcome?.kind, OUTCOME.succeeded);
  assert.match(stdout, /^128 operations are pending/);
});

test("an answer that nobody waits for any more is dropped", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      await ctx.wait.human().catch(() => 0);
      return new Promise((resolve) => setTimeout(resolve, 20, "went on"));
    }`),
  );
  const program = guest.start({});
  const op = await program.next<AOp>("A_OP");
  program.send("A_CANCEL", { reason: "r", graceMs: 1000 });
  answer(program, op, { condition: "cancelled" });
  assert.equal((await program.ended).output, "went on");
});

test("a program reads a stream from where it is, and is told where that is only once", async () => {
  using guest = new Guest(
    taskWith(
      `async (ctx) => {
         const input = streams.input("in");
         return [await input.wait().unwrap(), await input.once().unwrap()];
       }`,
    ),
  );
  const program = guest.start({});
  const record = (sequence: number) => ({
    condition: "completed",
    data: { id: "r", stream_id: "s", sequence, data: sequence * 10 },
  });
  const first = await program.next<AOp>("A_OP");
  assert.deepEqual(bodyOf(first), { kind: "stream", params: { stream: "in" } });
  answer(program, first, record(4));
  const second = await program.next<AOp>("A_OP");
  assert.deepEqual(bodyOf(second), {
    kind: "stream",
    params: { stream: "in", cursor: 4, live: true },
  });
  answer(program, second, record(5));
  assert.deepEqual((await program.ended).output, [40, 50]);
});

test("what a task says of its run is sent before its outcome", async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => { void ctx.emit({ type: "part", content: [1] }); return "done"; }`),
  );
  const program = guest.start({});
  const op = await program.next<AOp>("A_OP");
  assert.deepEqual([op.kind, bodyOf(op)], ["event.emit", { type: "part", content: [1] }]);
  answer(program, op, null);
  const { output } = await program.ended;
  assert.equal(output, "done");
});
