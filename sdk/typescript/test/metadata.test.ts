// What a task says of its run, over a run that the test plays.
import assert from "node:assert/strict";
import { join } from "node:path";
import { afterEach, test } from "node:test";
import { metadata } from "@helmr/sdk";
import type { EmittedEvent } from "@helmr/sdk";
import { buildSync } from "esbuild";

/* Not an export: the adapter hands it to tasks, from a copy of the package of its own. */
const { outputFiles } = buildSync({
  entryPoints: [join(import.meta.dirname, "../src/emit.ts")],
  bundle: true,
  format: "esm",
  platform: "node",
  write: false,
});
const { taskEmit } = (await import(
  `data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? "")}`
)) as { taskEmit: (event: EmittedEvent) => Promise<void> };

const symbol = Symbol.for("helmr.sdk.runRuntime");
const globals = globalThis as unknown as Record<symbol, unknown>;

/** A run that takes everything; what it was asked is noted. */
function insideRun(): [string, unknown][] {
  const asked: [string, unknown][] = [];
  const operate = async (kind: string, body: object): Promise<null> => {
    asked.push([kind, JSON.parse(JSON.stringify(body))]);
    return null;
  };
  Object.defineProperty(globals, symbol, { value: { operate }, configurable: true });
  return asked;
}

afterEach(() => Object.defineProperty(globals, symbol, { value: undefined, configurable: true }));

test("metadata is set, patched and counted in order", async () => {
  const asked = insideRun();
  assert.equal(await metadata.set("step", { name: "build" }), undefined);
  await Promise.all([
    metadata.increment("done"),
    metadata.increment("done", 2.5),
    metadata.patch({ step: null, total: 3 }),
  ]);
  assert.deepEqual(asked, [
    ["metadata.set", { key: "step", value: { name: "build" } }],
    ["metadata.increment", { key: "done", amount: 1 }],
    ["metadata.increment", { key: "done", amount: 2.5 }],
    ["metadata.patch", { patch: { step: null, total: 3 } }],
  ]);
});

test("what is set does not change after the call", async () => {
  const asked = insideRun();
  const value = { n: 1 };
  const set = metadata.set("a", value);
  value.n = 2;
  await set;
  assert.deepEqual(asked, [["metadata.set", { key: "a", value: { n: 1 } }]]);
});

const refused: [string, () => Promise<void>, RegExp][] = [
  ["an empty key", () => metadata.set("", 1), /key must not be empty/],
  ["a long key", () => metadata.set("ä".repeat(257), 1), /key must not be over 512 bytes/],
  ["a long key in a patch", () => metadata.patch({ ["k".repeat(513)]: 1 }), /over 512 bytes/],
  ["a function", () => metadata.set("a", () => 1), /value has no form in JSON/],
  ["a large value", () => metadata.set("a", "x".repeat(262_143)), /over 256 KiB/],
  ["a list as patch", () => metadata.patch([] as never), /values must be an object/],
  ["no number", () => metadata.increment("a", Number.NaN), /amount must be a finite number/],
  ["an empty type", () => taskEmit({ type: "", content: [] }), /event.type must not be empty/],
  ["a long type", () => taskEmit({ type: "t".repeat(257), content: [] }), /over 256 bytes/],
  ["no list", () => taskEmit({ type: "t", content: {} as never }), /content must be an array/],
  ["large content", () => taskEmit({ type: "t", content: ["x".repeat(262_141)] }), /over 256 KiB/],
  ["more than that", () => taskEmit({ type: "t", content: [], a: 1 } as never), /a is unknown/],
];

for (const [what, call, message] of refused)
  test(`${what} is refused and nothing is sent`, async () => {
    const asked = insideRun();
    await assert.rejects(async () => call(), message);
    assert.deepEqual(asked, []);
  });

test("content of the largest size is sent", async () => {
  const asked = insideRun();
  await taskEmit({ type: "é".repeat(128), content: ["x".repeat(262_140)] });
  assert.equal(asked[0]?.[0], "event.emit");
});

test("outside a run they say so", async () => {
  await assert.rejects(async () => metadata.set("a", 1), /metadata.set can only be used inside a run/);
  await assert.rejects(async () => metadata.patch({}), /metadata.patch can only be used inside a run/);
  await assert.rejects(async () => metadata.increment("a"), /increment can only be used inside a run/);
  await assert.rejects(async () => taskEmit({ type: "t", content: [] }), /ctx.emit can only be used/);
});
