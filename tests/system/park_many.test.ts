// Runs that are parked by one worker and resumed by another, if that one has the key.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, suite, test } from "node:test";
import { projects } from "./lib/helmr.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own, Worker } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { happened, noSandbox, parked, start, succeeded } from "./lib/waiting.ts";

suite("workers that resume each other's runs", () => {
  const scope = declaredScope();
  const names = new Map<string, string>();
  let own: Own;
  let deployment = "";
  let [one, two, other] = [] as unknown as [Worker, Worker, Worker];

  const activations = (): number => own.log.split('"event":"worker active"').length;

  async function only(worker: Worker): Promise<void> {
    for (const running of own.workers)
      if (running !== worker && running.isRunning) assert.equal(await running.end("SIGTERM"), 0);
    if (worker.isRunning) return;
    const active = activations();
    worker.start();
    await until(`${worker.name} is active`, () => activations() > active);
  }

  const ranOn = async (id: string, n: number): Promise<string | undefined> =>
    names.get((await happened(own, id, "run.lease_started", n)).attributes.worker_id);

  before(async () => {
    const key = { HELMR_CHECKPOINT_ENCRYPTION_KEY: randomBytes(32).toString("base64") };
    own = await startOwn(scope, {
      env: { HELMR_WAIT_HOT_TIME: "0s" },
      workers: [{ name: "one" }, { name: "two" }, { name: "other", env: key }],
    });
    [one, two, other] = own.workers as [Worker, Worker, Worker];
    const { body } = await own.api("/workers", { key: own.session });
    for (const { id, resource_id } of body.workers) names.set(id, resource_id);
    await only(one);
    deployment = await own.deployed(`${projects}waits`);
  });

  test("a second worker resumes what the first one parked", async () => {
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const wait = await parked(own, id);
    assert.equal(await ranOn(id, 1), "one");
    await only(two);
    await own.client.tokens.complete(wait.id, { approved: true });
    const { output } = await succeeded(own, id);
    assert.equal(await ranOn(id, 2), "two");
    assert.deepEqual([output.count, output.content], [2, "Ada before and after"]);
    assert.equal(output.heard, "heard Ada\n");
  });

  test("a worker with another key is never offered it, and the run says what it waits for", async () => {
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const wait = await parked(own, id);
    await only(other);
    await own.client.tokens.complete(wait.id, { approved: true });
    // The worker takes work, only not this.
    const fresh = await start(own, deployment, "naps", { for: "1s" });
    await succeeded(own, fresh);
    assert.equal(await ranOn(fresh, 1), "other");
    // A worker that stopped may come back at once; after a while it does not count any more.
    await until("nobody can resume it", async () => {
      const { body } = await own.api(`/runs/${id}`);
      assert.equal(body.status, "queued");
      return body.queued_reason === "no_compatible_worker";
    });
    assert.match(await own.printed(["show", id]), /worker other has another checkpoint key/);
    const events = await own.runEvents(id);
    assert.equal(events.filter(({ kind }) => kind === "run.lease_assigned").length, 1);
    await only(one);
    await succeeded(own, id);
    assert.equal(await ranOn(id, 2), "one");
  });

  test("nothing is left", async () => {
    await noSandbox(own);
    await own.stopClean();
  });
});
