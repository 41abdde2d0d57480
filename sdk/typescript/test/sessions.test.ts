import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "@helmr/sdk";
import { HelmrApiError, image, PayloadSchemaValidationError, sandbox, task } from "@helmr/sdk";
import type { HelmrClient, SessionRef, StandardSchemaV1 } from "@helmr/sdk";
import { json, TestServer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const session = {
  id: "session-1",
  project_id: "p",
  environment_id: "e",
  task_id: "chat",
  initial_deployment_id: "d1",
  active_deployment_id: "d2",
  external_id: "thread-1",
  status: "open",
  activity: "idle",
  can_close: true,
  current_run_id: null,
  workspace_id: "w",
  metadata: { a: 1 },
  tags: [],
  result: null,
  error: null,
  timed_out: false,
  terminal_reason: null,
  forked_from: { run_id: "r0", wait_id: "w0" },
  expires_at: "2026-02-01T00:00:00.000Z",
  expired_at: null,
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:01.000Z",
};

const run = {
  id: "run-1",
  session_id: "session-1",
  workspace_id: "w",
  task_id: "chat",
  status: "succeeded",
  exit_code: 0,
  output: { n: 2 },
  metadata: {},
  tags: [],
  payload: {},
  deployment_version: "20260101.1",
  api_version: "2026-06-06",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:01.000Z",
};

const started = { session, run, is_cached: false };

test("a session is started with everything that was given and nothing else", async () => {
  await using server = await TestServer.start(json(201, started));
  const { sessions } = server.client;
  const made = await sessions.start("chat", { n: 1 }, {
    externalId: "thread-1",
    workspaceId: "w",
    expiresAt: new Date("2026-02-01T00:00:00Z"),
    secrets: { KEY: "vault:STORED" },
    queue: "q",
    concurrencyKey: "k",
    priority: 5,
    ttl: "1m",
    maxDuration: { minutes: 2 },
    retry: { enabled: false },
    metadata: { a: 1 },
    tags: ["t"],
  });
  assert.deepEqual(server.asked[0]?.body, {
    task_id: "chat",
    payload: { n: 1 },
    secrets: { KEY: "vault:STORED" },
    queue: { name: "q" },
    concurrency_key: "k",
    priority: 5,
    ttl: "60s",
    max_duration_seconds: 120,
    retry: { enabled: false },
    metadata: { a: 1 },
    tags: ["t"],
    external_id: "thread-1",
    workspace_id: "w",
    expires_at: "2026-02-01T00:00:00.000Z",
  });
  assert.equal(made.isCached, false);
  assert.deepEqual([made.run.isSuccess, made.run.output], [true, { n: 2 }]);
  await sessions.start("chat");
  assert.deepEqual(server.asked[1]?.body, { task_id: "chat" });
});

test("a session's snapshot has dates, nulls where nothing is yet and no other nulls", async () => {
  await using server = await TestServer.start(json(200, session));
  assert.deepEqual(await server.client.sessions.retrieve("session-1"), {
    id: "session-1",
    projectId: "p",
    environmentId: "e",
    taskId: "chat",
    initialDeploymentId: "d1",
    activeDeploymentId: "d2",
    externalId: "thread-1",
    status: "open",
    activity: "idle",
    canClose: true,
    currentRunId: null,
    workspaceId: "w",
    metadata: { a: 1 },
    tags: [],
    timedOut: false,
    forkedFrom: { runId: "r0", waitId: "w0" },
    expiresAt: new Date("2026-02-01T00:00:00.000Z"),
    expiredAt: null,
    createdAt: new Date("2026-01-01T00:00:00.000Z"),
    updatedAt: new Date("2026-01-01T00:00:01.000Z"),
  });
});

test("starting and waiting tells whether the run was over in time", async () => {
  await using server = await TestServer.start(json(201, { ...started, timed_out: true }));
  const { timedOut, run: seen } = await server.client.sessions.startAndWait("chat", undefined, {
    timeoutSeconds: 5,
  });
  assert.deepEqual([timedOut, seen.id], [true, "run-1"]);
  const [asked] = server.asked;
  assert.equal(asked?.url, "/api/sessions/start-and-wait");
  assert.deepEqual(asked?.body, { task_id: "chat", timeout_seconds: 5 });
});

test("a task object's payload is checked before its session is started", async () => {
  const payload: StandardSchemaV1<{ n: number }> = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: () => ({ issues: [{ message: "no" }] }),
    },
  };
  const sbx = sandbox("s").image(image("i").from("a"));
  const subject = task({ id: "chat", sandbox: sbx, payload, run: async ({ n }) => n });
  await using server = await TestServer.start(json(201, started));
  await assert.rejects(server.client.sessions.start(subject, { n: 1 }), PayloadSchemaValidationError);
  await assert.rejects(
    server.client.sessions.startAndWait(subject, { n: 1 }),
    PayloadSchemaValidationError,
  );
  assert.equal(server.asked.length, 0);
});

const byId = "/api/sessions/session-1";
const byName = "/api/sessions/by-external-id";
const names: [string, (client: HelmrClient) => SessionRef, string, string][] = [
  ["its id", () => "session-1", byId, ""],
  ["its handle", ({ sessions }) => sessions.open("session-1"), byId, ""],
  ["an object with its id", () => ({ id: "session-1" }), byId, ""],
  ["its external id", () => ({ externalId: "a b" }), byName, "?external_id=a+b"],
  [
    "a handle by external id",
    ({ sessions }) => sessions.open({ externalId: "a b" }),
    byName,
    "?external_id=a+b",
  ],
];

for (const [what, name, path, query] of names)
  test(`a session is found by ${what}`, async () => {
    await using server = await TestServer.start(
      json(200, session),
      json(200, session),
      json(200, session),
      json(200, session),
      json(200, { runs: [run] }),
    );
    const { client } = server;
    const ref = name(client);
    const handle = client.sessions.open(ref);
    await client.sessions.retrieve(ref);
    await client.sessions.update(ref, { tags: ["x"], expiresAt: "2026-02-01T00:00:00Z" });
    await handle.close({ reason: "done" });
    await handle.cancel();
    const runs = await handle.runs();
    assert.deepEqual(
      runs.map(({ id }) => id),
      ["run-1"],
    );
    assert.deepEqual(
      server.asked.map(({ method, url, body }) => [method, url, body]),
      [
        ["GET", path + query, undefined],
        ["PATCH", path + query, { tags: ["x"], expires_at: "2026-02-01T00:00:00.000Z" }],
        ["POST", `${path}/close${query}`, { reason: "done" }],
        ["POST", `${path}/cancel${query}`, {}],
        ["GET", `${path}/runs${query}`, undefined],
      ],
    );
  });

test("a handle tells what it was opened by, and needs something", async () => {
  await using server = await TestServer.start(json(200, session));
  const { sessions } = server.client;
  assert.deepEqual(
    [sessions.open("a").id, sessions.open("a").externalId, sessions.open({ externalId: "x" }).id],
    ["a", undefined, undefined],
  );
  const snapshot = await sessions.retrieve("session-1");
  const handle = sessions.open(snapshot);
  assert.deepEqual([handle.id, handle.externalId], ["session-1", "thread-1"]);
  assert.throws(() => sessions.open(""), TypeError);
  assert.throws(() => sessions.open({} as SessionRef), TypeError);
});

test("sessions are listed by pages, in the scope that was named", async () => {
  await using server = await TestServer.start(json(200, { sessions: [session], next_cursor: "c" }));
  const { sessions } = server.client;
  const page = await sessions.listPage({
    projectId: "p",
    environmentId: "e",
    status: "all",
    taskId: "chat",
    externalId: "x",
    limit: 1,
    cursor: "b",
  });
  assert.deepEqual([page.sessions[0]?.id, page.nextCursor], ["session-1", "c"]);
  assert.equal(
    server.asked[0]?.url,
    "/api/projects/p/environments/e/sessions?status=all&task_id=chat&external_id=x&limit=1&cursor=b",
  );
  assert.equal((await sessions.list())[0]?.id, "session-1");
  const handle = sessions.open("session-1", { projectId: "p", environmentId: "e" });
  await handle.retrieve();
  assert.equal(server.asked[2]?.url, "/api/projects/p/environments/e/sessions/session-1");
});

test("a refusal names its code", async () => {
  const body = { error: "no", code: "session_fingerprint_mismatch" };
  await using server = await TestServer.start(json(409, body));
  await assert.rejects(
    server.client.sessions.start("chat", {}, { externalId: "x" }),
    (error) => error instanceof HelmrApiError && error.code === "session_fingerprint_mismatch",
  );
});

test("every method of a session can be stopped", async () => {
  await using server = await TestServer.start((_request, response) => void response.flushHeaders());
  const { sessions } = server.client;
  const handle = sessions.open("session-1");
  const stop = (): { signal: AbortSignal } => ({ signal: AbortSignal.timeout(20) });
  const calls = [
    () => sessions.start("chat", undefined, stop()),
    () => sessions.startAndWait("chat", undefined, stop()),
    () => sessions.list(stop()),
    () => sessions.update("session-1", stop()),
    () => handle.retrieve(stop()),
    () => handle.close(stop()),
    () => handle.runs(stop()),
    () => handle.input("i").send(1, stop()),
    () => handle.input("i").list(stop()),
    () => handle.output("o").read(stop()),
    () => handle.output("o").subscribe(stop()).next(),
  ];
  for (const call of calls)
    await assert.rejects(call as () => Promise<unknown>, { name: "TimeoutError" });
});

const exported = `
  auth cache defineConfig idempotencyKeys image logger metadata queue runs sandbox schedules sessions
  source streams task tasks timers tokens validateSecretName
  HelmrClient AuthError ConcurrentWaitError HelmrApiError PayloadSchemaValidationError
  RunNotFoundError TimeoutError UnsupportedTransportError WaitCancelledError WaitTimeoutError
  WorkspaceStreamError WorkspaceStreamTerminalError workspaces`;

test("the package has these names", () => {
  assert.deepEqual(Object.keys(sdk).sort(), exported.trim().split(/\s+/).sort());
});
