// What takes too long for every change: one run parked again and again, and very many parked at once.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { projects } from "./lib/helmr.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { noSandbox, parked, sandboxes, start, succeeded } from "./lib/waiting.ts";

const cycles = Number(process.env.PARK_CYCLES ?? 200);
const many = Number(process.env.PARK_MANY ?? 1000);
const answers = 50;
const bytes = 1024 * 1024;
const startsAtOnce = 8;
const stuckMs = 180_000;

/* What the task `cycles` makes of its answers. */
function hashOf(given: readonly string[], size: number): string {
  const kept = Buffer.alloc(size, "kept");
  let hash = "";
  for (const [n, answer] of given.entries()) {
    kept.write(answer, (n * 4096) % size);
    hash = createHash("sha256").update(hash).update(answer).update(kept).digest("hex");
  }
  return hash;
}

suite("many parks", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    deployment = await own.deployed(`${projects}waits`);
  });

  test(`one run is parked and resumed ${cycles} times`, async () => {
    const id = await start(own, deployment, "cycles", { times: cycles, bytes });
    const given: string[] = [];
    for (let last: string | undefined; given.length < cycles;) {
      const wait = await parked(own, id, last);
      assert.equal(wait.metadata.n, given.length);
      assert.equal(wait.metadata.hash, given.length === 0 ? "" : hashOf(given, bytes));
      given.push(randomBytes(16).toString("hex"));
      await own.client.tokens.complete(wait.id, given.at(-1));
      last = wait.id;
    }
    const { output } = await succeeded(own, id);
    assert.deepEqual(output, { hash: hashOf(given, bytes), filed: hashOf(given, bytes) });
    const resumed = (await own.runEvents(id)).filter(({ kind }) => kind === "run.resumed");
    assert.equal(resumed.length, cycles);
    assert.ok(resumed.every(({ attributes }) => attributes.mode === "restored"));
  });

  /* Every run that is parked now, with its wait. */
  async function allParked(): Promise<Map<string, string>> {
    const found = new Map<string, string>();
    for (let cursor: string | undefined; ;) {
      const options = { status: "waiting", limit: 200, ...(cursor && { cursor }) } as const;
      const page = await own.client.runs.listPage(options);
      for (const { id, pendingWait } of page.runs)
        if (pendingWait?.suspension === "parked") found.set(id, pendingWait.id);
      if (page.nextCursor === undefined) return found;
      cursor = page.nextCursor;
    }
  }

  test(`${many} runs are parked at once, and ${answers} of them answered at once`, async () => {
    const payload = { times: 1, bytes: 4096 };
    for (let made = 0; made < many; made += startsAtOnce) {
      const batch = Array.from({ length: Math.min(startsAtOnce, many - made) });
      await Promise.all(batch.map(() => start(own, deployment, "cycles", payload)));
    }
    let all = new Map<string, string>();
    for (let seen = 0, since = Date.now(); all.size < many; await sleep(500)) {
      all = await allParked();
      if (all.size > seen) [seen, since] = [all.size, Date.now()];
      assert.ok(Date.now() - since < stuckMs, `${all.size} are parked, and no more`);
    }
    await noSandbox(own);
    assert.deepEqual(sandboxes(own), []);
    const some = [...all].slice(0, answers);
    await Promise.all(some.map(([id, waitId]) => own.client.tokens.complete(waitId, id)));
    for (const [id] of some)
      assert.equal((await succeeded(own, id)).output.hash, hashOf([id], payload.bytes));
    assert.equal((await allParked()).size, many - answers);
  });

  test("nothing is left", () => own.stopClean());
});
