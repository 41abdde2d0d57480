// The half of the package that a task uses, over a run that the test plays.
import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import {
  ConcurrentWaitError,
  PayloadSchemaValidationError,
  timers,
  tokens,
  WaitCancelledError,
  WaitTimeoutError,
} from "@helmr/sdk";
import type { StandardSchemaV1, TaskWait } from "@helmr/sdk";
import { buildSync } from "esbuild";

/* Not an export: the adapter hands it to tasks, from a copy of the package of its own. */
const { outputFiles } = buildSync({
  entryPoints: [join(import.meta.dirname, "../src/context.ts")],
  bundle: true,
  format: "esm",
  platform: "node",
  write: false,
});
const { taskWait } = (await import(
  `data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? "")}`
)) as { taskWait: TaskWait };

const symbol = Symbol.for("helmr.sdk.runRuntime");
const globals = globalThis as unknown as Record<symbol, unknown>;

/** A run that answers every wait with this; what it was asked is noted. */
function insideRun(settlement: object | Error, made: object = {}): [string, object][] {
  const asked: [string, object][] = [];
  const answer = async (): Promise<unknown> => {
    if (settlement instanceof Error) throw settlement;
    return settlement;
  };
  const runtime = {
    log: () => undefined,
    operate: async (kind: string, body: object) => {
      asked.push([kind, JSON.parse(JSON.stringify(body)) as object]);
      return made;
    },
    wait: (body: object) => {
      asked.push(["wait", body]);
      return answer();
    },
  };
  Object.defineProperty(globals, symbol, { value: runtime, configurable: true });
  return asked;
}

afterEach(() => Object.defineProperty(globals, symbol, { value: undefined, configurable: true }));

const done = { condition: "completed", data: { approved: true } };

const even: StandardSchemaV1<unknown, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "number" && value % 2 === 0
        ? { value: value / 2 }
        : { issues: [{ message: "must be even" }] },
  },
};

test("a lazy wait is opened when it is first awaited, and once", async () => {
  const asked = insideRun(done);
  const wait = tokens.wait("t");
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(asked, []);
  assert.deepEqual((await wait).data, { approved: true });
  assert.deepEqual(await wait.unwrap(), { approved: true });
  assert.equal((await wait).ok, true);
  assert.deepEqual(asked, [["wait", { kind: "token", token_id: "t" }]]);
});

const endings: [string, object, new (...args: never[]) => Error, RegExp][] = [
  ["an expired wait", { condition: "expired" }, WaitTimeoutError, /timed out after 60s/],
  ["a cancelled one", { condition: "cancelled", reason: "gone" }, WaitCancelledError, /gone/],
  ["one without a reason", { condition: "cancelled" }, WaitCancelledError, /was cancelled/],
  ["a failed one", { condition: "failed", message: "no such" }, Error, /no such/],
];

for (const [what, settlement, type, message] of endings)
  test(`${what} is a result, and an error by unwrap`, async () => {
    insideRun(settlement);
    const wait = tokens.wait("t", { timeout: "1m" });
    const result = await wait;
    assert.equal(result.ok, false);
    assert.ok(result.error instanceof type);
    assert.match(result.error.message, message);
    assert.throws(() => result.unwrap(), { message });
    await assert.rejects(wait.unwrap(), { message });
  });

test("an expired wait knows the time it was given", async () => {
  insideRun({ condition: "expired" });
  const { error } = await tokens.wait("t", { timeout: { minutes: 1 } });
  assert.equal((error as WaitTimeoutError).timeout, "60s");
  const other = await tokens.wait("t");
  assert.equal((other.error as WaitTimeoutError).timeout, undefined);
});

test("what a schema makes of the answer is the data", async () => {
  insideRun({ condition: "completed", data: 4 });
  assert.equal(await tokens.wait("t", { schema: even }).unwrap(), 2);
  assert.equal(await taskWait.human({ schema: even }), 2);
});

test("an answer that a schema refuses is an error of the wait", async () => {
  insideRun({ condition: "completed", data: 3 });
  const { ok, error } = await tokens.wait("t", { schema: even });
  assert.equal(ok, false);
  assert.ok(error instanceof PayloadSchemaValidationError);
  await assert.rejects(taskWait.human({ schema: even }), PayloadSchemaValidationError);
});

test("a wait that could not be opened throws either way", async () => {
  insideRun(new ConcurrentWaitError("another wait is pending"));
  await assert.rejects(async () => await timers.waitFor(1), ConcurrentWaitError);
  await assert.rejects(timers.waitFor(1).unwrap(), ConcurrentWaitError);
});

test("a person is asked with a form", async () => {
  const asked = insideRun(done);
  await taskWait.human();
  await taskWait.human({ displayText: "Name?", form: "message", metadata: { a: 1, prompt: "x" } });
  assert.deepEqual(asked, [
    ["wait", { kind: "token", metadata: { form: { version: 1, type: "approval" } } }],
    [
      "wait",
      {
        kind: "token",
        metadata: { a: 1, prompt: "Name?", form: { version: 1, type: "message" } },
      },
    ],
  ]);
});

test("a point in time long past is sent as one", async () => {
  const asked = insideRun({ condition: "completed" });
  assert.equal(await timers.waitUntil(new Date(-8.64e15)).unwrap(), undefined);
  assert.deepEqual(asked, [["wait", { kind: "timer", until: "1970-01-01T00:00:00.000Z" }]]);
});

test("metadata is taken as it is at the call", async () => {
  const asked = insideRun(done);
  const metadata = { step: 1 };
  const wait = tokens.wait("t", { metadata });
  metadata.step = 2;
  await wait;
  assert.deepEqual(asked[0]?.[1], { kind: "token", token_id: "t", metadata: { step: 1 } });
});

const refusals: [string, () => unknown, RegExp][] = [
  ["a negative duration", () => timers.waitFor(-1), /duration must be from 0s/],
  ["a duration that is none", () => taskWait.for("soon"), /must be a duration such as/],
  ["no instant", () => taskWait.until(5 as never), /must be a Date or an ISO string/],
  ["an invalid instant", () => timers.waitUntil("soon"), /must be a valid point in time/],
  ["an instant too far", () => timers.waitUntil("2100-01-01"), /over ten years away/],
  ["a timeout of nothing", () => taskWait.human({ timeout: 0 }), /options.timeout must be from 1ms/],
  ["a timeout over a year", () => tokens.wait("t", { timeout: "366d" }), /options.timeout/],
  ["an idle time over 1 h", () => tokens.wait("t", { idleTimeout: "61m" }), /idleTimeout must be/],
  ["another form", () => taskWait.human({ form: "video" as never }), /form must be one of/],
  ["a long text", () => taskWait.human({ displayText: "é".repeat(8193) }), /over 16 KiB/],
  ["33 tags", () => taskWait.human({ tags: Array(33).fill("a") as string[] }), /must not be over 32/],
  ["an empty tag", () => taskWait.human({ tags: [""] }), /tags\[0\] must not be empty/],
  ["a long tag", () => tokens.create({ tags: ["a".repeat(129)] }), /a tag over 128 bytes/],
  ["metadata in a list", () => taskWait.human({ metadata: [] as never }), /must be an object/],
  ["much metadata", () => taskWait.human({ metadata: { a: "x".repeat(65536) } }), /over 64 KiB/],
  ["a long key", () => taskWait.human({ metadata: { ["k".repeat(513)]: 1 } }), /over 512 bytes/],
  ["an unknown option", () => taskWait.human({ timeuot: "1s" } as never), /timeuot is unknown/],
  ["a schema that is none", () => tokens.wait("t", { schema: {} as never }), /a Standard Schema/],
  ["no token", () => tokens.wait("" as never), /token must not be empty/],
  ["a scope inside a run", () => tokens.create({ projectId: "p" }), /projectId is unknown/],
];

for (const [what, call, message] of refusals)
  test(`${what} is refused at the call`, () => {
    const asked = insideRun(done);
    assert.throws(call, (error) => error instanceof TypeError && message.test(error.message));
    assert.deepEqual(asked, []);
  });

test("a token of a run has its addresses and can be waited for", async () => {
  const asked = insideRun(done, {
    id: "t1",
    status: "pending",
    timeout_at: "2030-01-01T00:00:00.000Z",
    tags: ["x"],
    metadata: { a: 1 },
    created_at: "2026-01-01T00:00:00.000Z",
    updated_at: "2026-01-01T00:00:00.000Z",
    callback_url: "https://helmr.example/c",
    public_access_token: "hlmr_pat_1",
  });
  const token = await tokens.create({ timeout: "1h", tags: ["x"], metadata: { a: 1 } });
  assert.deepEqual([token.callbackUrl, token.publicAccessToken], [
    "https://helmr.example/c",
    "hlmr_pat_1",
  ]);
  assert.deepEqual(token.timeoutAt, new Date("2030-01-01T00:00:00.000Z"));
  await token.wait();
  await tokens.wait(token);
  assert.deepEqual(asked, [
    ["token.create", { timeout: "3600s", tags: ["x"], metadata: { a: 1 } }],
    ["wait", { kind: "token", token_id: "t1" }],
    ["wait", { kind: "token", token_id: "t1" }],
  ]);
});

const outside: [string, () => unknown][] = [
  ["timers.waitFor", () => timers.waitFor("1s")],
  ["timers.waitUntil", () => timers.waitUntil(new Date())],
  ["tokens.wait", () => tokens.wait("t")],
];

for (const [name, call] of outside)
  test(`${name} outside a run says so`, () => {
    assert.throws(call, { message: `${name} can only be used inside a run` });
  });
