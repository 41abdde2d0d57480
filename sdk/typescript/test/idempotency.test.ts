import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { idempotencyKeys } from "@helmr/sdk";
import { json, TestServer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const symbol = Symbol.for("helmr.sdk.runRuntime");
const globals = globalThis as unknown as Record<symbol, unknown>;
const sha256 = (value: object): string =>
  createHash("sha256").update(JSON.stringify(value)).digest("hex");

function inside<T>(call: () => T): T {
  globals[symbol] = { identity: () => ({ runId: "run-1", attemptNumber: 2 }) };
  try {
    return call();
  } finally {
    delete globals[symbol];
  }
}

test("a key is the hash of its scope, its parts and where it is used", async () => {
  const global = await idempotencyKeys.create("a", { scope: "global" });
  assert.deepEqual(global, {
    value: sha256({ scope: "global", key: ["a"] }),
    key: "a",
    scope: "global",
  });
  const of = { runId: "r", attemptNumber: 3 };
  const run = await idempotencyKeys.create(["a", "b"], of);
  assert.deepEqual(run, {
    value: sha256({ scope: "run", key: ["a", "b"], runId: "r" }),
    key: ["a", "b"],
    scope: "run",
  });
  const attempt = await idempotencyKeys.create("a", { ...of, scope: "attempt" });
  assert.equal(attempt.value, sha256({ scope: "attempt", key: ["a"], ...of }));
});

test("inside a run its ids are taken from there", async () => {
  const run = await inside(() => idempotencyKeys.create("a"));
  assert.equal(run.value, sha256({ scope: "run", key: ["a"], runId: "run-1" }));
  const attempt = await inside(() => idempotencyKeys.create("a", { scope: "attempt" }));
  const expected = { scope: "attempt", key: ["a"], runId: "run-1", attemptNumber: 2 };
  assert.equal(attempt.value, sha256(expected));
});

test("a key without its ids or parts is refused", async () => {
  await assert.rejects(idempotencyKeys.create("a"), /runId is needed outside a run/);
  await assert.rejects(
    idempotencyKeys.create("a", { scope: "attempt", runId: "r" }),
    /attemptNumber is needed/,
  );
  for (const key of ["", [], ["a", ""], 5])
    await assert.rejects(idempotencyKeys.create(key as string, { scope: "global" }), TypeError);
  await assert.rejects(idempotencyKeys.create("a", { scope: "all" as never }), TypeError);
});

test("a key is accepted wherever text is, and tells what it was made from", async () => {
  const key = await idempotencyKeys.create(["a", "b"], { scope: "global" });
  const words = {
    idempotency_key: key.value,
    idempotency_key_options: { key: ["a", "b"], scope: "global" },
  };
  await using server = await TestServer.start(json(400, { error: "seen", code: "invalid_request" }));
  const { runs, sessions, tasks, tokens } = server.client;
  const calls = [
    () => runs.cancel("r", { idempotencyKey: key }),
    () => runs.fork("r", { idempotencyKey: key }),
    () => tokens.create({ idempotencyKey: key }),
    () => sessions.open("s").input("i").send(1, { idempotencyKey: key }),
    () => sessions.open("s").output("o").append(1, { idempotencyKey: key }),
    () => tasks.trigger("t", undefined, { idempotencyKey: key }),
  ];
  for (const call of calls) await assert.rejects(call as () => Promise<unknown>, /seen/);
  const bodies = server.asked.map(({ body }) => body as Record<string, unknown>);
  const { options } = bodies.pop() as { options: Record<string, unknown> };
  for (const body of [...bodies, options]) {
    const { idempotency_key, idempotency_key_options } = body;
    assert.deepEqual({ idempotency_key, idempotency_key_options }, words);
  }
});
