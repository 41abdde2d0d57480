import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { patience } from "./lib/engine.ts";
import { client, deployed, projects } from "./lib/helmr.ts";
import { partsOf, peakMemory } from "./lib/host.ts";
import { read } from "./lib/stream.ts";

const deployment = await deployed(`${projects}tasks`);
const floodBytes = 50 * 1024 * 1024;
const growthMiB = 64;

/* Counts whole lines and complains at the first that is not the next one. */
class Counter {
  lines = 0;
  #rest = "";
  readonly #hash = createHash("sha256");

  take(bytes: Buffer): void {
    this.#hash.update(bytes);
    const pieces = (this.#rest + bytes.toString()).split("\n");
    this.#rest = pieces.pop() as string;
    for (const piece of pieces) assert.equal(Number.parseInt(piece, 10), this.lines++);
  }

  digest(): string {
    assert.equal(this.#rest, "");
    return this.#hash.digest("hex");
  }
}

test("50 MB of output arrive whole and in order while memory stays flat", async () => {
  const parts = partsOf(Number(process.env.SYSTEM_UP_PID));
  const before = { server: peakMemory(parts.server), worker: peakMemory(parts.worker) };
  const payload = { bytes: floodBytes };
  const handle = await client.tasks.trigger("floods", payload, { deploymentId: deployment });
  const counter = new Counter();
  const ended = await read(`/runs/${handle.id}/logs`, undefined, Infinity, ({ data }) => {
    assert.equal(data.stream, "stdout");
    counter.take(Buffer.from(data.content_base64, "base64"));
  });
  assert.ok(ended);
  const { status, output, error } = await client.runs.wait(handle, { timeoutMs: patience(120_000) });
  assert.equal(status, "succeeded", JSON.stringify(error));
  assert.deepEqual(output, { lines: counter.lines, sha256: counter.digest() });
  for (const [name, pid] of Object.entries(parts)) {
    const grown = peakMemory(pid) - before[name as keyof typeof before];
    assert.ok(grown < growthMiB, `the ${name} grew by ${Math.round(grown)} MiB`);
  }
});
