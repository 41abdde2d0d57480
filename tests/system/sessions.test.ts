// Sessions as people and programs see them: named, waited for, ended, in a workspace that is there.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { HelmrApiError } from "@helmr/sdk";
import type { RunSnapshot, SessionSnapshot } from "@helmr/sdk";
import { api, client, deployed, printed } from "./lib/helmr.ts";
import { until } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";

const files: Files = {
  "tasks/a.ts": `import * as fs from "node:fs";
import { image, sandbox, streams, task } from "@helmr/sdk";

const says = streams.input<string>("says");
const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"));

export const greets = task({
  id: "greets",
  sandbox: box,
  run: async (payload: { name: string }, ctx) => {
    fs.writeFileSync("greeting.txt", payload.name + "\\n");
    return { greeting: "Hello, " + payload.name, session: ctx.session.id };
  },
});

export const notes = task({
  id: "notes",
  sandbox: box,
  run: async (payload: { title: string }, ctx) => {
    const said = (await says.peek()) === null ? null : await says.wait().unwrap();
    if (said === "break") throw new Error("broken");
    fs.appendFileSync("notes.txt", (said ?? payload.title) + "\\n");
    return { notes: fs.readFileSync("notes.txt", "utf8"), session: ctx.session.id };
  },
});

export const ponders = task({
  id: "ponders",
  sandbox: box,
  run: async (ctx) => {
    await ctx.wait.for("1h");
  },
});
`,
};

// Sessions are started with the current deployment.
const deploymentId = await deployed(project({ after }, files));
await printed(["deployment", "promote", deploymentId]);
const named = (what: string): string => `${what}-${process.pid}`;

const refused =
  (status: number, code: string) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof HelmrApiError, String(error));
    assert.deepEqual([error.status, error.code], [status, code]);
    return true;
  };

async function becomes(id: string, status: string): Promise<SessionSnapshot> {
  let session: SessionSnapshot | undefined;
  await until(`session ${id} is ${status}`, async () => {
    session = await client.sessions.retrieve(id);
    return session.status === status;
  });
  return session as SessionSnapshot;
}

async function ended(id: string): Promise<RunSnapshot> {
  let run: RunSnapshot | undefined;
  await until(`run ${id} is over`, async () => {
    run = await client.runs.retrieve(id);
    return run.isTerminal;
  });
  return run as RunSnapshot;
}

async function waits(id: string): Promise<void> {
  await until(`run ${id} waits`, async () => (await client.runs.retrieve(id)).isWaiting);
}

test("a session has a name, a result and an end", async () => {
  const externalId = named("order");
  const options = { externalId, tags: ["a"], metadata: { m: 1 }, timeoutSeconds: 300 };
  const first = await client.sessions.startAndWait("greets", { name: "Ada" }, options);
  assert.equal(first.run.status, "succeeded", JSON.stringify(first.run.error));
  assert.deepEqual([first.isCached, first.timedOut], [false, false]);
  assert.deepEqual(first.run.output, { greeting: "Hello, Ada", session: first.session.id });
  assert.deepEqual(first.session.result, first.run.output);
  assert.equal(first.session.activeDeploymentId, deploymentId);

  const again = await client.sessions.start("greets", { name: "Ada" }, options);
  assert.deepEqual([again.isCached, again.session.id, again.run.id], [true, first.session.id, first.run.id]);
  await assert.rejects(
    client.sessions.start("greets", { name: "Eve" }, options),
    refused(409, "session_fingerprint_mismatch"),
  );

  const handle = client.sessions.open({ externalId });
  const found = await handle.retrieve();
  assert.deepEqual([found.id, found.activity, found.canClose], [first.session.id, "idle", true]);
  assert.deepEqual((await handle.runs()).map(({ id }) => id), [first.run.id]);
  assert.match(await printed(["session", "get", "--external-id", externalId]), /^Status: open$/m);
  assert.match(
    await printed(["session", "close", found.id, "--reason", "done"]),
    /^session_status: closed$/m,
  );
  assert.equal((await handle.retrieve()).terminalReason, "done");
  await assert.rejects(handle.close(), refused(409, "session_terminal"));
  await assert.rejects(
    client.sessions.start("greets", { name: "Ada" }, options),
    refused(409, "session_terminal"),
  );
});

test("a start that takes longer than it is waited for goes on", async () => {
  const started = await client.sessions.startAndWait("ponders", undefined, { timeoutSeconds: 1 });
  assert.ok(started.timedOut && !started.run.isTerminal);
  await waits(started.run.id);
  const session = await client.sessions.retrieve(started.session.id);
  assert.deepEqual([session.activity, session.canClose], ["waiting", false]);
  await assert.rejects(client.sessions.open(session.id).close(), refused(409, "close_run_active"));

  assert.equal((await client.sessions.open(session.id).cancel({ reason: "enough" })).status, "cancelled");
  assert.equal((await ended(started.run.id)).status, "cancelled");
});

test("a session ends with its time, and its run with it", async () => {
  const expiresAt = new Date(Date.now() + 3_600_000);
  const { session, run } = await client.sessions.start("ponders", undefined, { expiresAt });
  await waits(run.id);
  await assert.rejects(
    client.sessions.update(session.id, { expiresAt: new Date(expiresAt.getTime() + 1000) }),
    refused(409, "session_expires_at_not_extendable"),
  );
  await client.sessions.update(session.id, { expiresAt: new Date(Date.now() + 1000) });
  const expired = await becomes(session.id, "expired");
  assert.ok(expired.timedOut && expired.expiredAt);
  assert.equal((await ended(run.id)).status, "cancelled");
  await assert.rejects(client.sessions.open(session.id).cancel(), refused(410, "session_expired"));
});

test("a workspace is written by one session at a time", async () => {
  const { session, run } = await client.sessions.startAndWait("greets", { name: "Ada" }, { timeoutSeconds: 300 });
  assert.equal(run.status, "succeeded", JSON.stringify(run.error));
  const { workspaceId } = session;
  const next = await client.sessions.start("ponders", undefined, { workspaceId });
  assert.equal(next.session.workspaceId, workspaceId);
  const [before, now] = [await api(`/runs/${run.id}`), await api(`/runs/${next.run.id}`)];
  assert.ok(before.body.result_version_id);
  assert.equal(now.body.base_version_id, before.body.result_version_id);
  await assert.rejects(
    client.sessions.start("greets", { name: "Eve" }, { workspaceId }),
    refused(409, "workspace_writer_active"),
  );
  await waits(next.run.id);
  await client.sessions.open(next.session.id).cancel();
  await ended(next.run.id);
  const last = await client.sessions.start("ponders", undefined, { workspaceId });
  await client.sessions.open(last.session.id).cancel();
});

/** The run of that turn, once it is over. */
async function turn(id: string, index: number): Promise<RunSnapshot> {
  const run = async (): Promise<RunSnapshot | undefined> =>
    (await client.sessions.open(id).runs())[index];
  await until(`turn ${index} of ${id}`, async () => (await run())?.isTerminal ?? false);
  return (await run()) as RunSnapshot;
}

test("input after the end of a run makes the next one, in the same workspace", async () => {
  const started = await client.sessions.startAndWait("notes", { title: "shopping" }, { timeoutSeconds: 300 });
  const { id } = started.session;
  assert.deepEqual(started.run.output, { notes: "shopping\n", session: id }, JSON.stringify(started.run.error));

  const input = client.sessions.open(id).input("says");
  const milk = await input.send("milk");
  assert.equal(milk.continuationStatus, "created");
  const first = await turn(id, 1);
  assert.deepEqual(first.output, { notes: "shopping\nmilk\n", session: id }, JSON.stringify(first.error));
  assert.deepEqual(first.payload, { title: "shopping" });
  const { body } = await api(`/runs/${first.id}`);
  assert.deepEqual([body.turn_index, body.reason, body.previous_run_id], [1, "input", started.run.id]);
  const { record_id, stream_id, sequence, kind } = body.cause;
  assert.deepEqual([kind, record_id, sequence], ["stream_record", milk.id, 1]);
  assert.equal(stream_id, milk.streamId);

  // A turn that fails leaves the workspace as it was, and the next one goes on from there.
  await input.send("break");
  assert.equal((await turn(id, 2)).status, "failed");
  await input.send("eggs");
  const last = await turn(id, 3);
  assert.deepEqual(last.output, { notes: "shopping\nmilk\neggs\n", session: id }, JSON.stringify(last.error));
  const session = await client.sessions.retrieve(id);
  assert.deepEqual([session.activity, session.currentRunId], ["idle", last.id]);
});
