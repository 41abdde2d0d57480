// A run that waits costs nothing and loses nothing: parked, everything stopped and started again,
// answered in every way there is.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { before, suite, test } from "node:test";
import { AuthError, HelmrApiError } from "@helmr/sdk";
import { engine, patience } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";
import { countOf, happened, noSandbox, parked, restart, sandboxes } from "./lib/waiting.ts";
import { start, succeeded, waiting } from "./lib/waiting.ts";

const shortHash = (value: string): string =>
  createHash("sha256").update(value).digest("hex").slice(0, 16);

const mayWorkMs = patience(5000);

const dozes = `import { image, sandbox, task } from "@helmr/sdk";

export const dozes = task({
  id: "dozes",
  sandbox: sandbox("s")
    .image(image("i").from("node:24-bookworm-slim"))
    .resources({ cpu: 1, memory: "512Mi" }),
  maxDuration: "${mayWorkMs}ms",
  run: async (ctx) => {
    const begun = Date.now();
    await ctx.wait.for("${2 * mayWorkMs}ms");
    return Date.now() - begun;
  },
});
`;

suite("waits that are parked at once", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    deployment = await own.deployed(`${projects}waits`);
  });

  test("a parked run goes on with all it had, though everything was stopped meanwhile", async () => {
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const wait = await parked(own, id);
    assert.equal(wait.kind, "token");
    assert.deepEqual(wait.metadata, { prompt: "Go on?", form: { version: 1, type: "approval" } });
    assert.equal(wait.checkpoint?.state, "ready");
    assert.deepEqual(sandboxes(own), []);
    const created = await happened(own, id, "run_wait.created");
    assert.equal(created.attributes.metadata.prompt, "Go on?");
    const stored = await happened(own, id, "checkpoint.ready");
    assert.ok(stored.attributes.stored_bytes > 0);
    assert.match(await own.printed(["show", id]), new RegExp(`^Status: waiting$[^]*^Wait: token:${wait.id}$`, "m"));
    assert.match(await own.printed(["ps"]), new RegExp(`${id}.*waiting.*token:${wait.id}`));

    await restart(own);
    const answeredAt = Date.now();
    await own.printed(["resume", "respond", wait.id, "--value", '{"approved":true}']);
    const { output } = await succeeded(own, id);
    const { now, runId, resumes, ...rest } = output;
    assert.deepEqual(rest, {
      answer: { approved: true },
      count: 2,
      content: "Ada before and after",
      heard: "heard Ada\n",
      timer: "rang",
      attempt: 1,
    });
    assert.equal(runId, id);
    assert.ok(resumes > 0);
    assert.ok(now >= answeredAt && now <= Date.now(), `${answeredAt} ${now} ${Date.now()}`);
    const events = await own.runEvents(id);
    const resumed = await happened(own, id, "run.resumed");
    assert.equal(resumed.attributes.mode, "restored");
    assert.equal(countOf(events, "run_wait.completed"), 1);
    assert.equal(events.filter(({ kind }) => kind === "run.lease_started").length, 2);
    const diff = await own.printed(["diff", id]);
    assert.deepEqual(diff.trim().split("\n"), ["A approved.txt", "A before.txt"]);
    await noSandbox(own);
  });

  test("a short timer stays in memory, a longer one is parked", async () => {
    const short = await start(own, deployment, "naps", { for: "2s" });
    const { output } = await succeeded(own, short);
    assert.ok(output.ended - output.begun >= 2000);
    const events = await own.runEvents(short);
    assert.equal(countOf(events, "checkpoint.started"), 0);
    assert.equal((await happened(own, short, "run.resumed")).attributes.mode, "hot");

    const until = new Date(Date.now() + patience(12_000)).toISOString();
    const long = await start(own, deployment, "naps", { until });
    const { checkpoint } = await parked(own, long);
    assert.ok(checkpoint);
    const late = await succeeded(own, long);
    assert.ok(late.output.ended >= Date.parse(until));
    assert.equal((await happened(own, long, "run.resumed")).attributes.mode, "restored");
  });

  test("time that is waited is not time that is used", async () => {
    const brief = await own.deployed(project(scope, { "tasks/a.ts": dozes }));
    const { output, id } = await succeeded(own, await start(own, brief, "dozes"));
    assert.ok(output >= 2 * mayWorkMs);
    const { body } = await own.api(`/runs/${id}`);
    assert.ok(body.active_duration_ms < mayWorkMs, `${body.active_duration_ms}`);
  });

  test("an instant that has passed is no wait", async () => {
    const id = await start(own, deployment, "naps", { until: "2020-01-01T00:00:00Z" });
    await succeeded(own, id);
    assert.equal(countOf(await own.runEvents(id), "checkpoint.started"), 0);
  });

  async function asked(): Promise<{ id: string; token: Record<string, string> }> {
    const id = await start(own, deployment, "asks");
    await parked(own, id);
    const { stdout } = await own.client.runs.logs.retrieve(id);
    const [, told] = /^token (.*)$/m.exec(stdout) ?? [];
    return { id, token: JSON.parse(told as string) };
  }

  test("a token is completed once, by its callback address", async () => {
    const { id, token } = await asked();
    const call = async (body: unknown): Promise<{ status: number; body: any }> => {
      const response = await fetch(token.callbackUrl as string, {
        method: "POST",
        body: JSON.stringify(body),
      });
      return { status: response.status, body: await response.json() };
    };
    const wrong = (token.callbackUrl as string).replace(/.$/, (last) => (last === "a" ? "b" : "a"));
    const refused = await fetch(wrong, { method: "POST", body: "{}" });
    assert.ok([401, 404].includes(refused.status), `${refused.status}`);
    const first = await call({ data: { n: 1 } });
    assert.deepEqual([first.status, first.body.status], [200, "completed"]);
    const again = await call({ data: { n: 1 } });
    assert.deepEqual([again.status, again.body.status], [200, "already_completed"]);
    const other = await call({ data: { n: 2 } });
    assert.deepEqual([other.status, other.body.code], [409, "token_completion_conflict"]);
    assert.deepEqual((await succeeded(own, id)).output, { got: { n: 1 } });
  });

  test("a token is completed by whoever holds its public access token, and nothing else", async () => {
    const [one, two] = [await asked(), await asked()];
    const publicAccessToken = one.token.publicAccessToken as string;
    const { tokens } = own.client;
    await assert.rejects(
      tokens.complete(two.token.id as string, "no", { publicAccessToken }),
      AuthError,
    );
    const done = await tokens.complete(one.token.id as string, "yes", { publicAccessToken });
    assert.equal(done.status, "completed");
    assert.deepEqual((await succeeded(own, one.id)).output, { got: "yes" });
    const scope = { type: "token.complete", token: two.token.id as string } as const;
    const link = await own.client.auth.createPublicToken({ scope, maxUses: 1 });
    await tokens.complete(scope.token, null, { publicAccessToken: link.publicAccessToken });
    assert.deepEqual((await succeeded(own, two.id)).output, { got: null });
  });

  test("the command line knows tokens", async () => {
    const { id, token } = await asked();
    assert.match(await own.printed(["token", "get", token.id as string]), /pending/);
    const said = await own.printed(["token", "complete", token.id as string, "--data-json", "[1]"]);
    assert.match(said, /token_status: completed\n/);
    assert.deepEqual((await succeeded(own, id)).output, { got: [1] });
  });

  test("nobody answers: the run fails and says so, or goes on if it can", async () => {
    const fails = await start(own, deployment, "expires", { timeout: "8s" });
    const catches = await start(own, deployment, "expires", { timeout: "8s", catches: true });
    const { tokenId } = await parked(own, fails);
    const ended = await own.client.runs.wait(fails, { timeoutMs: patience(120_000) });
    assert.deepEqual(
      [ended.status, ended.error?.layer, ended.error?.failureKind],
      ["failed", "parked_wait", "wait_timeout"],
    );
    await assert.rejects(
      own.client.tokens.complete(tokenId as string, 1),
      (error) => error instanceof HelmrApiError && error.code === "token_expired",
    );
    const { output } = await succeeded(own, catches);
    assert.deepEqual(output, { name: "WaitTimeoutError", isTimeout: true, isCancelled: false });
  });

  test("a cancelled token reaches the program", async () => {
    const id = await start(own, deployment, "expires", { timeout: "1h", catches: true });
    const { tokenId } = await parked(own, id);
    assert.match(await own.printed(["token", "cancel", tokenId as string]), /cancelled/);
    const { output } = await succeeded(own, id);
    assert.deepEqual(output, { name: "WaitCancelledError", isTimeout: false, isCancelled: true });
  });

  test("a parked run is cancelled without a worker, and its token with it", async () => {
    const id = await start(own, deployment, "approve", { name: "x" });
    const { tokenId } = await parked(own, id);
    const { run } = await own.client.runs.cancel(id, { reason: "enough" });
    assert.equal(run.status, "cancelled");
    assert.equal((await own.client.tokens.retrieve(tokenId as string)).status, "cancelled");
    await assert.rejects(own.client.tokens.complete(tokenId as string, 1), /token_cancelled/);
    const [wait] = await own.client.runs.waits(id);
    assert.deepEqual([wait?.condition, wait?.suspension], ["cancelled", "cancelled"]);
  });

  test("one wait at a time", async () => {
    const { output } = await succeeded(own, await start(own, deployment, "twice"));
    assert.deepEqual(output, { isConcurrent: true });
  });

  test("a secret that was changed meanwhile reaches the parked program", async () => {
    const set = (name: string, input: string): Promise<string> =>
      own.printed(["secret", "set", name], { input });
    await set("SEALED", "first value");
    await set("FILED", "first file");
    const id = await start(own, deployment, "keeps", {});
    const { tokenId } = await parked(own, id);
    await set("SEALED", "second value");
    await set("FILED", "second file");
    await own.client.tokens.complete(tokenId as string);
    assert.deepEqual((await succeeded(own, id)).output, {
      before: ["first value", "first file"].map(shortHash),
      after: ["second value", "second file"].map(shortHash),
    });
  });

  test("a run waits many times", async () => {
    const id = await start(own, deployment, "cycles", { times: 3, bytes: 8192 });
    let last: string | undefined;
    for (const answer of ["one", "two", "three"]) {
      const wait = await parked(own, id, last);
      await own.client.tokens.complete(wait.id, answer);
      last = wait.id;
    }
    const { output } = await succeeded(own, id);
    assert.equal(output.hash, output.filed);
    const waits = await own.client.runs.waits(id);
    assert.deepEqual(
      waits.map(({ condition, suspension }) => [condition, suspension]),
      Array(3).fill(["completed", "released"]),
    );
  });

  test("a run is parked with its connections open, and its server listens again", async () => {
    const id = await start(own, deployment, "talks", {});
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id);
    const { output } = await succeeded(own, id);
    const kept = engine.savesConnections ? "heard it" : "ECONNRESET";
    assert.deepEqual(output, { before: "heard it", kept, after: "heard it" });
    assert.equal(countOf(await own.runEvents(id), "run.wait_checkpoint_failed"), 0);
  });

  test("a run whose child has a server cannot be stored: it stays, and is answered", async (t) => {
    if (engine.savesConnections) return t.skip(`${engine.name} stores it`);
    const id = await start(own, deployment, "hosts", {});
    const failed = await happened(own, id, "run.wait_checkpoint_failed");
    assert.match(JSON.stringify(failed.attributes), /process \d+ has TCP sockets open/);
    const wait = await waiting(own, id);
    await own.client.tokens.complete(wait.id, "mine");
    assert.deepEqual((await succeeded(own, id)).output, { answer: "mine" });
    assert.equal(countOf(await own.runEvents(id), "run.lease_started"), 1);
  });

  test("a run whose child has a server is stored with it", async (t) => {
    if (!engine.savesConnections) return t.skip(`${engine.name} cannot`);
    const id = await start(own, deployment, "hosts", {});
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id, "mine");
    assert.deepEqual((await succeeded(own, id)).output, { answer: "mine" });
    assert.equal(countOf(await own.runEvents(id), "run.wait_checkpoint_failed"), 0);
  });

  test("every store is whole, and nothing is left", () => own.stopClean());
});

suite("waits that are answered while the sandbox is there", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "60s" } });
    deployment = await own.deployed(`${projects}waits`);
  });

  test("an answer in time needs no checkpoint", async () => {
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const wait = await waiting(own, id);
    assert.equal(wait.suspension, "hot");
    await own.client.tokens.complete(wait.id, { approved: false });
    const { output } = await succeeded(own, id);
    assert.deepEqual([output.answer, output.count], [{ approved: false }, 2]);
    const events = await own.runEvents(id);
    assert.equal(countOf(events, "checkpoint.started"), 0);
    assert.equal((await happened(own, id, "run.resumed")).attributes.mode, "hot");
    assert.equal(countOf(events, "run.lease_started"), 1);
  });

  test("a worker that stops parks what waits", async () => {
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const wait = await waiting(own, id);
    await restart(own);
    const now = await own.client.runs.retrieve(id);
    assert.equal(now.pendingWait?.id, wait.id);
    assert.equal(now.pendingWait?.suspension, "parked");
    await own.client.tokens.complete(wait.id, null);
    const { output } = await succeeded(own, id);
    assert.deepEqual([output.answer, output.content], [null, "Ada before and after"]);
  });

  test("nothing is left", () => own.stopClean());
});
