// What parks and resumes runs breaks under them: the server hangs, the engine dies, somebody
// cancels, two people answer at once. A run ends once, with what it had, or is cancelled once.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { HelmrApiError, HelmrClient } from "@helmr/sdk";
import { engine, patience } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { commandOf } from "./lib/host.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own, Worker } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { checkpointFiles, damage, isPack } from "./lib/sealed.ts";
import { countOf, driven, happened, noSandbox, parked, start } from "./lib/waiting.ts";
import { succeeded, waiting } from "./lib/waiting.ts";

const hangMs = 4000;

const isTerminal = /^run\.(completed|failed|cancelled|expired|dead_lettered)$/;

suite("faults of parks", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "1s", HELMR_LEASE_TTL: "10s" } });
    deployment = await own.deployed(`${projects}waits`);
  });

  const approve = (): Promise<string> => start(own, deployment, "approve", { name: "Ada" });

  const kindsOf = async (id: string): Promise<string[]> =>
    (await own.runEvents(id)).map(({ kind }) => kind);

  async function endedOnce(id: string, kind: string): Promise<void> {
    const ends = (await kindsOf(id)).filter((one) => isTerminal.test(one));
    assert.deepEqual(ends, [kind]);
  }

  async function endedWell(id: string): Promise<void> {
    const { output } = await succeeded(own, id);
    assert.deepEqual(
      [output.answer, output.count, output.content, output.heard],
      [{ approved: true }, 2, "Ada before and after", "heard Ada\n"],
    );
    await endedOnce(id, "run.completed");
  }

  /* The main process of the sandbox of the run's n-th lease, once it is there. */
  async function sandboxOf(id: string, n = 1): Promise<number> {
    const { attributes } = await happened(own, id, "run.lease_assigned", n);
    const folder = `${own.workers[0]?.workDir}/instances`;
    const isIts = (name: string): boolean => {
      const owner = `${folder}/${name}/owner`;
      return existsSync(owner) && readFileSync(owner, "utf8").includes(attributes.lease_id);
    };
    let found: number | undefined;
    await until(`the sandbox of ${id}`, () => {
      const [instance] = readdirSync(folder).filter(isIts);
      found = readdirSync("/proc")
        .filter((name) => /^\d+$/.test(name))
        .map(Number)
        .find((pid) => instance && engine.isSandbox(commandOf(pid), instance));
      return found;
    });
    return found as number;
  }

  test("a server that hangs while a run is parked loses nothing", async () => {
    const id = await approve();
    await happened(own, id, "checkpoint.started");
    process.kill(own.server.pid as number, "SIGSTOP");
    await sleep(hangMs); // As long as it hangs, and shorter than a lease lasts.
    process.kill(own.server.pid as number, "SIGCONT");
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id, { approved: true });
    await endedWell(id);
    assert.equal(countOf(await own.runEvents(id), "run.execution_lost"), 0);
  });

  const killEngine = (pid: number): boolean => process.kill(pid, "SIGKILL");

  test("the engine is killed while a run waits: it begins again", async () => {
    const id = await approve();
    await waiting(own, id);
    killEngine(await sandboxOf(id));
    const requeued = await happened(own, id, "run.dispatch_requeued");
    assert.equal(requeued.attributes.from_checkpoint, false);
    await driven(own, id, { approved: true });
    await endedWell(id);
    assert.equal(countOf(await own.runEvents(id), "run_wait.cancelled"), 1);
  });

  test("the engine is killed while a run is parked", async () => {
    const id = await approve();
    const pid = await sandboxOf(id);
    await happened(own, id, "checkpoint.started");
    try {
      killEngine(pid);
    } catch {
      // It was saved already.
    }
    await driven(own, id, { approved: true });
    await endedWell(id);
  });

  test("the engine is killed while a run is resumed: it is resumed once more", async () => {
    const id = await approve();
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id, { approved: true });
    killEngine(await sandboxOf(id, 2));
    await endedWell(id);
    const requeued = await happened(own, id, "run.dispatch_requeued");
    assert.equal(requeued.attributes.from_checkpoint, true);
    assert.equal(countOf(await own.runEvents(id), "run_wait.created"), 1);
  });

  test("a cancel reaches a run that is being parked", async () => {
    const id = await approve();
    await happened(own, id, "checkpoint.started");
    await own.client.runs.cancel(id, { reason: "enough" });
    const { status } = await own.client.runs.wait(id, { timeoutMs: patience(120_000) });
    assert.equal(status, "cancelled");
    await endedOnce(id, "run.cancelled");
    await noSandbox(own);
  });

  test("a cancel reaches a run that is being resumed", async () => {
    const id = await approve();
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id, { approved: true });
    await happened(own, id, "run.lease_assigned", 2);
    await own.client.runs.cancel(id, { reason: "enough" });
    const { status } = await own.client.runs.wait(id, { timeoutMs: patience(120_000) });
    assert.equal(status, "cancelled");
    await endedOnce(id, "run.cancelled");
    await noSandbox(own);
  });

  async function stopped(worker: Worker): Promise<number | null> {
    const ended = worker.end("SIGTERM");
    try {
      await until("the worker has stopped", () => !worker.isRunning);
    } catch (error) {
      await worker.end("SIGKILL");
      throw error;
    }
    return ended;
  }

  test("a worker that stops lets a cancelled run tidy up, and ends", async () => {
    const id = await start(own, deployment, "lingers", { forMs: 2000 });
    await waiting(own, id);
    await own.client.runs.cancel(id);
    await own.said(id, "tidying up");
    const [worker] = own.workers as [Worker];
    const code = await stopped(worker);
    worker.start();
    await own.active();
    assert.equal(code, 0);
    const { stdout } = await own.client.runs.logs.retrieve(id);
    assert.equal(stdout, "tidying up\ntidied up\n");
    await endedOnce(id, "run.cancelled");
  });

  test("an older checkpoint in the place of a newer one is not taken for it", async () => {
    const id = await start(own, deployment, "cycles", { times: 2, bytes: 8192 });
    const manifests = (): string[] =>
      checkpointFiles(own.place.dataDir).filter((path) => !isPack(path));
    const before = manifests();
    const first = await parked(own, id);
    const [older] = manifests().filter((path) => !before.includes(path)) as [string];
    await own.client.tokens.complete(first.id, "one");
    const second = await parked(own, id, first.id);
    const [newer] = manifests().filter((path) => ![...before, older].includes(path)) as [string];
    damage(newer, () => readFileSync(older));
    await own.client.tokens.complete(second.id, "two");
    // The older one is whole: from there the run comes to its second wait again.
    const again = await parked(own, id, second.id);
    await own.client.tokens.complete(again.id, "two");
    const { output } = await succeeded(own, id);
    assert.equal(output.hash, output.filed);
    assert.equal(countOf(await own.runEvents(id), "run_wait.created"), 3);
    await endedOnce(id, "run.completed");
  });

  test("of two answers at the same time one counts", async () => {
    const id = await approve();
    const wait = await parked(own, id);
    const { url, apiKey } = own.place;
    const answers = [{ approved: true }, { approved: false }];
    const outcomes = await Promise.allSettled(
      answers.map((answer) => new HelmrClient({ url, apiKey }).tokens.complete(wait.id, answer)),
    );
    const refused = outcomes.filter((outcome) => outcome.status === "rejected");
    assert.equal(refused.length, 1, JSON.stringify(outcomes));
    const { reason } = refused[0] as PromiseRejectedResult;
    assert.ok(reason instanceof HelmrApiError, String(reason));
    assert.equal(reason.code, "token_completion_conflict");
    const first = answers[outcomes.findIndex(({ status }) => status === "fulfilled")];
    assert.deepEqual((await succeeded(own, id)).output.answer, first);
    const events = await own.runEvents(id);
    assert.equal(countOf(events, "run_wait.completed"), 1);
    assert.equal(countOf(events, "run.resumed"), 1);
    assert.equal(countOf(events, "run.lease_started"), 2);
  });

  test("of two equal answers at the same time both are taken, and it is resumed once", async () => {
    const id = await approve();
    const wait = await parked(own, id);
    const complete = () => own.client.tokens.complete(wait.id, { approved: true });
    const said = (await Promise.all([complete(), complete()])).map(({ status }) => status);
    assert.deepEqual(said.sort(), ["already_completed", "completed"]);
    await endedWell(id);
    const events = await own.runEvents(id);
    assert.equal(countOf(events, "run.resumed"), 1);
    assert.equal(countOf(events, "run.lease_started"), 2);
  });

  test("nothing is left", async () => {
    await noSandbox(own);
    await own.stopClean();
  });
});
