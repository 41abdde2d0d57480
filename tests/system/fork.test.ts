// One parked run, several ways on.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import { projects } from "./lib/helmr.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { happened, parked, start, succeeded } from "./lib/waiting.ts";

interface Branch {
  readonly run: string;
  readonly session: string;
  readonly workspace: string;
  readonly token: string;
}

suite("forks", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";
  let source = "";
  let branches: Branch[] = [];
  let outputs: any[] = [];

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    deployment = await own.deployed(`${projects}waits`);
    source = await start(own, deployment, "branch", {});
    await parked(own, source);
  });

  test("a branch for each answer", async () => {
    const answers = ['{"approved":true}', '{"approved":false}'];
    const flags = answers.flatMap((answer) => ["--answer-json", answer]);
    const lines = (await own.printed(["fork", source, ...flags])).trim().split("\n");
    branches = lines.map((line) => {
      const [run, session, workspace, token] = line.split("\t") as [string, string, string, string];
      return { run, session, workspace, token };
    });
    assert.equal(branches.length, 2);
    outputs = [];
    for (const { run } of branches) outputs.push((await succeeded(own, run)).output);
    assert.deepEqual(
      outputs.map(({ answer }) => answer),
      [{ approved: true }, { approved: false }],
    );
  });

  test("each has ids of its own, in the program too", async () => {
    const original = await own.client.runs.retrieve(source);
    const all = [original, ...(await Promise.all(branches.map(({ run }) => own.client.runs.retrieve(run))))];
    for (const member of ["id", "sessionId", "workspaceId"] as const)
      assert.equal(new Set(all.map((run) => run[member])).size, 3, member);
    for (const [at, { run, session, workspace }] of branches.entries()) {
      assert.deepEqual(outputs[at].ids, { run, session, workspace });
      const { forkedFrom } = all[at + 1] as (typeof all)[number];
      assert.deepEqual(forkedFrom, { runId: source, waitId: original.pendingWait?.id });
    }
    const { attributes } = await happened(own, source, "run.forked", 2);
    assert.equal(attributes.fork_run_id, branches[1]?.run);
    assert.match(await own.printed(["show", branches[0]?.run as string]), new RegExp(source));
  });

  test("none draws what another draws", () => {
    const [yes, no] = outputs;
    assert.deepEqual(yes.before, no.before);
    for (const what of ["uuid", "bytes", "number", "key"])
      assert.notEqual(yes.after[what], no.after[what], what);
  });

  test("what differs between two branches is shown", async () => {
    const [yes, no] = branches.map(({ run }) => run) as [string, string];
    const lines = (await own.printed(["diff", yes, no])).trim().split("\n");
    assert.deepEqual(lines, ["M decision.txt", "D review.txt"]);
    const patch = await own.printed(["diff", yes, no, "--patch"]);
    assert.match(patch, /^-yes$/m);
    assert.match(patch, /^\+no$/m);
    const { entries } = await own.client.runs.diff(yes);
    assert.deepEqual(
      entries.map(({ path, change }) => [path, change]),
      ["decision.txt", "kept.txt", "review.txt"].map((path) => [path, "added"]),
    );
  });

  test("a branch without an answer waits for its own", async () => {
    const fork = await own.client.runs.fork(source, { externalId: "third" });
    assert.equal(fork.session.externalId, "third");
    assert.ok(fork.token);
    const wait = await parked(own, fork.run.id);
    assert.equal(wait.tokenId, fork.token.id);
    await own.client.tokens.complete(fork.token, { approved: true });
    const { output } = await succeeded(own, fork.run.id);
    for (const what of ["uuid", "bytes", "number", "key"])
      assert.notEqual(output.after[what], outputs[0].after[what], what);
  });

  test("the source is still to be answered, and can be forked when it is over", async () => {
    const wait = await parked(own, source);
    await own.client.tokens.complete(wait.id, { approved: true });
    const { output } = await succeeded(own, source);
    assert.equal(output.ids.run, source);
    const { run } = await own.client.runs.fork(source, { waitId: wait.id, data: { approved: false } });
    assert.deepEqual((await succeeded(own, run.id)).output.answer, { approved: false });
  });

  test("only where it waited can a run be forked", async () => {
    const [theirs] = await own.client.runs.waits(branches[0]?.run as string);
    await assert.rejects(own.client.runs.fork(source, { waitId: theirs?.id as string }));
    const fresh = await start(own, deployment, "naps", { until: "2020-01-01T00:00:00Z" });
    await succeeded(own, fresh);
    await assert.rejects(own.client.runs.fork(fresh));
  });

  test("nothing is left", () => own.stopClean());
});
