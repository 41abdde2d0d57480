// A registry that fails in every way: the image comes all the same, or a clear message does, and
// nothing half-written is ever used.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import { blobs, corrupt, drop, first, redirect, refuse, replace, startProxy } from "./lib/faults.ts";
import { stall } from "./lib/faults.ts";
import type { Fault, Proxy } from "./lib/faults.ts";
import { startRegistry, withoutRegistry } from "./lib/registry.ts";
import { declaredScope } from "./lib/scope.ts";
import { emptyStore, makeImage, putImage } from "./lib/store.ts";

const skip = withoutRegistry() ?? false;
const mib = 1024 * 1024;
const made = makeImage([3 * mib, 2 * mib, mib]);
const smaller = makeImage([1000]);
const [layer] = JSON.parse(made.manifest).layers;

suite("a registry that fails", { skip }, () => {
  const scope = declaredScope();
  let proxy: Proxy;
  let other: Proxy;

  before(async () => {
    const registry = await startRegistry(scope);
    await putImage(registry.origin, "some/image:1", made);
    proxy = await startProxy(scope, registry.host);
    other = await startProxy(scope, registry.host);
  });

  /* What is overcome without a word. */
  const overcome: [string, () => Fault][] = [
    ["drops the connection in the middle, twice", () => blobs(first(2, drop))],
    ["answers 503, twice", () => blobs(first(2, refuse(503)))],
    ["asks to wait", () => first(1, refuse(429, { "retry-after": "1" }))],
    ["answers 502 to the manifest", () => first(1, refuse(502))],
    ["redirects blobs to another host", () => blobs(redirect(`http://${other.host}`))],
  ];
  // It takes as long as Helmr's patience, a minute for each blob in turn.
  if (process.env.SYSTEM_LONG) overcome.push(["stalls once", () => blobs(first(1, stall))]);

  for (const [what, fault] of overcome)
    test(`that ${what} gives the image all the same`, async (t) => {
      const store = emptyStore(t);
      proxy.use(fault());
      other.use(({ pass }) => pass());
      await store.printed("pull", `${proxy.host}/some/image:1`);
      assert.deepEqual(Object.values(await store.list()), [made.digest]);
      await store.isClean();
    });

  test("after a break the rest is asked for, not the whole", async (t) => {
    const seen: string[] = [];
    proxy.use(
      blobs((call) => {
        if (call.request.headers.range) seen.push(call.request.headers.range);
        first(1, drop)(call);
      }),
    );
    await emptyStore(t).printed("pull", `${proxy.host}/some/image:1`);
    assert.ok(seen.some((range) => /^bytes=[1-9]\d*-/.test(range)), seen.join(" "));
  });

  /* What ends in a message, and what the message must say. */
  const hopeless: [string, string, () => Fault, RegExp][] = [
    ["changes a byte of a blob", ":1", () => blobs(corrupt), /digest|sha256|content/i],
    [
      "gives another manifest than the digest names",
      `@${made.digest}`,
      () => (call) =>
        call.path.includes("/manifests/")
          ? replace(Buffer.from(smaller.manifest))(call)
          : call.pass(),
      /digest|sha256|content/i,
    ],
    [
      "gives a blob that is longer than promised",
      ":1",
      () => blobs(replace(Buffer.alloc(layer.size + 1))),
      /size|digest|bytes|content/i,
    ],
    ["drops every connection", ":1", () => blobs(drop), /connection|transfer|ended|closed|retr|tries/i],
    ["answers 503 for ever", ":1", () => refuse(503), /503/],
    ["answers 403", ":1", () => refuse(403), /403|denied|forbidden/i],
    ["redirects in a circle", ":1", () => redirect(`http://${proxy.host}`), /redirect/i],
    ["answers with no manifest at all", ":1", () => replace(Buffer.from("<html>")), /manifest|JSON|type/i],
  ];

  for (const [what, reference, fault, says] of hopeless)
    test(`that ${what} is an error, and nothing of it is used`, async (t) => {
      const store = emptyStore(t);
      proxy.use(fault());
      const message = await store.refused("pull", `${proxy.host}/some/image${reference}`);
      assert.match(message, says);
      assert.deepEqual(await store.list(), {});
      await store.isClean();
      proxy.use(({ pass }) => pass());
      await store.printed("pull", `${proxy.host}/some/image${reference}`);
      await store.isClean();
    });
});
