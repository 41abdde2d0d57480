// What the client says about waits, tokens and forks, and what it makes of the answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AuthError, ConcurrentWaitError, HelmrApiError, RunNotFoundError } from "@helmr/sdk";
import { WaitCancelledError, WaitTimeoutError } from "@helmr/sdk";
import { json, TestServer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const at = "2026-01-01T00:00:00.000Z";
const later = "2026-01-08T00:00:00.000Z";

const wait = {
  id: "wait-1",
  run_id: "run-1",
  attempt_number: 1,
  kind: "token",
  condition: "pending",
  suspension: "parked",
  params: {},
  metadata: { prompt: "Go on?", form: { version: 1, type: "approval" } },
  tags: ["a"],
  timeout: "7d",
  timeout_at: later,
  token_id: "token-1",
  checkpoint: { id: "checkpoint-1", state: "ready", size_bytes: 3_600_000 },
  created_at: at,
  settled_at: null,
};

const waitMembers = {
  id: "wait-1",
  runId: "run-1",
  attemptNumber: 1,
  kind: "token",
  condition: "pending",
  suspension: "parked",
  params: {},
  metadata: { prompt: "Go on?", form: { version: 1, type: "approval" } },
  tags: ["a"],
  timeout: "7d",
  timeoutAt: new Date(later),
  tokenId: "token-1",
  checkpoint: { id: "checkpoint-1", state: "ready", sizeBytes: 3_600_000 },
  createdAt: new Date(at),
};

const token = (status: string, more: object = {}): Record<string, unknown> => ({
  id: "token-1",
  status,
  timeout_at: later,
  tags: [],
  metadata: {},
  created_at: at,
  updated_at: at,
  ...more,
});

const run = (more: object = {}): Record<string, unknown> => ({
  id: "run-1",
  session_id: "session-1",
  workspace_id: "workspace-1",
  task_id: "hello",
  status: "waiting",
  exit_code: null,
  metadata: {},
  tags: [],
  payload: {},
  deployment_version: "20260101.1",
  api_version: "2026-06-06",
  created_at: at,
  updated_at: at,
  ...more,
});

const session = {
  id: "session-2",
  project_id: "p",
  environment_id: "e",
  task_id: "hello",
  status: "open",
  workspace_id: "workspace-2",
  metadata: {},
  tags: [],
  created_at: at,
  external_id: null,
};

const asked = (server: TestServer): [string | undefined, string | undefined, unknown][] =>
  server.asked.map(({ method, url, body }) => [method, url, body]);

test("a snapshot shows what the run waits for and what it was forked from", async () => {
  const forked = { run_id: "run-0", wait_id: "wait-0" };
  await using server = await TestServer.start(
    json(200, run({ pending_wait: wait, forked_from: forked })),
    json(200, run({ status: "running", pending_wait: null })),
  );
  const waiting = await server.client.runs.retrieve("run-1");
  assert.deepEqual(waiting.pendingWait, waitMembers);
  assert.deepEqual(waiting.forkedFrom, { runId: "run-0", waitId: "wait-0" });
  assert.ok(waiting.isWaiting && !waiting.isTerminal);
  const running = await server.client.runs.retrieve("run-1");
  assert.equal(running.pendingWait, null);
  assert.ok(!("forkedFrom" in running));
});

test("the waits of a run are listed with their times", async () => {
  const timer = {
    ...wait,
    id: "wait-0",
    kind: "timer",
    condition: "completed",
    suspension: "released",
    timeout: null,
    timeout_at: null,
    token_id: null,
    checkpoint: null,
    settled_at: later,
    released_at: later,
  };
  await using server = await TestServer.start(json(200, { waits: [timer, wait] }));
  const [first, second] = await server.client.runs.waits({ id: "run-1" });
  assert.deepEqual([first?.settledAt, first?.releasedAt], [new Date(later), new Date(later)]);
  for (const absent of ["timeout", "timeoutAt", "tokenId", "checkpoint"])
    assert.ok(!(absent in (first as object)), absent);
  assert.deepEqual(second, waitMembers);
  assert.deepEqual(asked(server), [["GET", "/api/runs/run-1/waits", undefined]]);
});

test("a token is made with a duration that has a unit, and only what was given", async () => {
  const made = token("pending", { callback_url: "https://h/cb", public_access_token: "pat" });
  await using server = await TestServer.start(json(201, made));
  const created = await server.client.tokens.create({ timeout: { hours: 1 }, tags: ["a"] });
  assert.deepEqual(created, {
    id: "token-1",
    status: "pending",
    timeoutAt: new Date(later),
    tags: [],
    metadata: {},
    createdAt: new Date(at),
    updatedAt: new Date(at),
    callbackUrl: "https://h/cb",
    publicAccessToken: "pat",
  });
  await server.client.tokens.create({ idempotencyKey: "k", metadata: { a: 1 } });
  await server.client.tokens.create();
  assert.deepEqual(asked(server), [
    ["POST", "/api/tokens", { timeout: "3600s", tags: ["a"] }],
    ["POST", "/api/tokens", { metadata: { a: 1 }, idempotency_key: "k" }],
    ["POST", "/api/tokens", {}],
  ]);
  await assert.rejects(server.client.tokens.create({ timeout: "soon" }), TypeError);
  assert.equal(server.asked.length, 3);
});

test("a token shows its answer, also when that is null", async () => {
  const by = { type: "api_key", id: "k", name: "ci" };
  const answered = { data: { approved: true }, completed_by: by, completed_at: later };
  await using server = await TestServer.start(
    json(200, token("completed", { ...answered, wait_id: "wait-1", run_id: "run-1" })),
    json(200, token("completed", { data: null })),
    json(200, token("pending", { data: null })),
  );
  const { tokens } = server.client;
  const first = await tokens.retrieve({ id: "token/1" });
  assert.deepEqual(first.data, { approved: true });
  assert.deepEqual([first.waitId, first.runId, first.completedBy], ["wait-1", "run-1", by]);
  assert.deepEqual(first.completedAt, new Date(later));
  assert.equal((await tokens.retrieve("token-1")).data, null);
  assert.ok(!("data" in (await tokens.retrieve("token-1"))));
  assert.equal(server.asked[0]?.url, "/api/tokens/token%2F1");
});

test("tokens are listed by status, a page at a time", async () => {
  await using server = await TestServer.start(
    json(200, { tokens: [token("pending", { tags: ["t"] })], next_cursor: "c2" }),
    json(200, { tokens: [] }),
  );
  const page = await server.client.tokens.listPage({ status: "pending", limit: 1 });
  assert.deepEqual([page.tokens[0]?.tags, page.nextCursor], [["t"], "c2"]);
  assert.deepEqual(await server.client.tokens.list({ cursor: "c2" }), []);
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    ["/api/tokens?status=pending&limit=1", "/api/tokens?cursor=c2"],
  );
});

test("completing tells whether it was the first, and no data is no member", async () => {
  await using server = await TestServer.start(
    json(200, { status: "completed", token: token("completed", { data: 1 }) }),
    json(200, { status: "already_completed", token: token("completed", { data: 1 }) }),
    json(200, { status: "completed", token: token("completed") }),
  );
  const { tokens } = server.client;
  assert.equal((await tokens.complete("token-1", 1)).status, "completed");
  assert.equal((await tokens.complete("token-1", 1)).status, "already_completed");
  assert.equal((await tokens.complete({ id: "token-1" })).token.data, null);
  assert.deepEqual(
    server.asked.map(({ body }) => body),
    [{ data: 1 }, { data: 1 }, {}],
  );
  assert.equal(server.asked[0]?.headers.authorization, "Bearer key-1");
});

test("with a public access token the API key is not sent", async () => {
  const answer = { status: "completed", token: token("completed", { data: false }) };
  await using server = await TestServer.start(
    json(200, answer),
    json(401, { error: "not this token", code: "token_scope_denied" }),
  );
  const { tokens } = server.client;
  const done = await tokens.complete("token-1", false, { publicAccessToken: "pat" });
  assert.equal(done.token.data, false);
  const [first] = server.asked;
  assert.equal(first?.url, "/api/v1/tokens/token-1/complete");
  assert.equal(first?.headers.authorization, "Bearer pat");
  await assert.rejects(
    tokens.complete("token-2", false, { publicAccessToken: "pat" }),
    (error) => error instanceof AuthError && error.message === "not this token",
  );
});

const refusals: [number, string][] = [
  [409, "token_completion_conflict"],
  [409, "token_cancelled"],
  [410, "token_expired"],
];

for (const [status, code] of refusals)
  test(`${code} can be told from other refusals`, async () => {
    await using server = await TestServer.start(json(status, { error: "no", code }));
    await assert.rejects(
      server.client.tokens.complete("token-1", 2),
      (error) => error instanceof HelmrApiError && error.status === status && error.code === code,
    );
  });

test("a cancelled token comes back as it is now", async () => {
  await using server = await TestServer.start(json(200, token("cancelled")));
  const cancelled = await server.client.tokens.cancel("token-1", { reason: "too late" });
  assert.equal(cancelled.status, "cancelled");
  assert.deepEqual(asked(server), [["POST", "/api/tokens/token-1/cancel", { reason: "too late" }]]);
});

test("a public token names its one token, its end and its uses", async () => {
  const made = {
    id: "pat-1",
    public_access_token: "pat",
    url: "https://h/answer/token-1#pat",
    scope: { type: "token.complete", token_id: "token-1" },
    expires_at: later,
    max_uses: 1,
    created_at: at,
  };
  await using server = await TestServer.start(json(201, made), json(201, { ...made, url: null }));
  const expiresAt = new Date(later);
  const scope = { type: "token.complete", token: { id: "token-1" } } as const;
  const first = await server.client.auth.createPublicToken({ scope, expiresAt, maxUses: 1 });
  assert.deepEqual(first, {
    id: "pat-1",
    publicAccessToken: "pat",
    url: "https://h/answer/token-1#pat",
    scope: { type: "token.complete", tokenId: "token-1" },
    expiresAt,
    maxUses: 1,
    createdAt: new Date(at),
  });
  assert.ok(!("url" in (await server.client.auth.createPublicToken({ scope }))));
  const sent = { scope: { type: "token.complete", token_id: "token-1" } };
  assert.deepEqual(asked(server), [
    ["POST", "/api/public-access-tokens", { ...sent, expires_at: later, max_uses: 1 }],
    ["POST", "/api/public-access-tokens", sent],
  ]);
});

test("a fork is answered, or left waiting, as it was asked for", async () => {
  const made = {
    session,
    run: run({ id: "run-2", forked_from: { run_id: "run-1", wait_id: "wait-1" } }),
    wait: { ...wait, id: "wait-2", run_id: "run-2" },
    token: token("pending", { id: "token-2" }),
  };
  await using server = await TestServer.start(
    json(201, made),
    json(201, { ...made, token: null }),
    json(409, { error: "no", code: "wait_not_forkable" }),
  );
  const { runs } = server.client;
  const fork = await runs.fork("run-1", { data: { approved: false }, externalId: "b" });
  assert.deepEqual(
    [fork.run.id, fork.run.forkedFrom?.runId, fork.wait.id, fork.token?.id],
    ["run-2", "run-1", "wait-2", "token-2"],
  );
  assert.deepEqual([fork.session.id, fork.session.workspaceId], ["session-2", "workspace-2"]);
  assert.ok(!("token" in (await runs.fork("run-1", { waitId: "wait-1", data: null }))));
  await assert.rejects(runs.fork("run-1"), /wait_not_forkable/);
  assert.deepEqual(asked(server), [
    ["POST", "/api/runs/run-1/fork", { data: { approved: false }, external_id: "b" }],
    ["POST", "/api/runs/run-1/fork", { wait_id: "wait-1", data: null }],
    ["POST", "/api/runs/run-1/fork", {}],
  ]);
});

test("a diff is the sum of its pages", async () => {
  const added = { path: "a.txt", change: "added", type: "file", size_after: 3, patch: "+a\n" };
  const moved = {
    path: "c",
    change: "renamed",
    type: "file",
    path_before: "b",
    size_before: 1,
    size_after: 1,
    mode_before: 420,
    mode_after: 493,
    binary: true,
    patch: null,
  };
  const versions = { from_version_id: null, to_version_id: "v2" };
  await using server = await TestServer.start(
    json(200, { ...versions, entries: [added], next_cursor: "n" }),
    json(200, { ...versions, entries: [moved] }),
  );
  assert.deepEqual(await server.client.runs.diff("run-1", { patch: true, path: "src" }), {
    toVersionId: "v2",
    entries: [
      { path: "a.txt", change: "added", type: "file", sizeAfter: 3, patch: "+a\n" },
      {
        path: "c",
        change: "renamed",
        type: "file",
        pathBefore: "b",
        sizeBefore: 1,
        sizeAfter: 1,
        modeBefore: 420,
        modeAfter: 493,
        isBinary: true,
      },
    ],
  });
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    ["/api/runs/run-1/diff?patch=1&path=src", "/api/runs/run-1/diff?patch=1&path=src&cursor=n"],
  );
});

test("an unknown run is one by every name", async () => {
  await using server = await TestServer.start(json(404, { error: "no", code: "not_found" }));
  const { runs } = server.client;
  await assert.rejects(runs.waits("run-9"), RunNotFoundError);
  await assert.rejects(runs.fork("run-9"), RunNotFoundError);
  await assert.rejects(runs.diff("run-9"), RunNotFoundError);
});

test("events of a wait name its kind and what became of it", async () => {
  const record = (kind: string, attributes: object): object => ({
    id: "e",
    cursor: "1",
    run_id: "run-1",
    kind,
    at,
    attributes: { wait_id: "wait-1", kind: "token", ...attributes },
  });
  const opened = { params: {}, metadata: { prompt: "Go on?" }, tags: [], timeout: "7d" };
  await using server = await TestServer.start(
    json(200, {
      events: [
        record("run_wait.created", opened),
        record("run.waiting", {}),
        record("run_wait.completed", { payload: null }),
        record("run_wait.timed_out", { kind: "timer" }),
        record("run_wait.cancelled", {}),
        record("run_wait.failed", {}),
      ],
      cursor: "6",
    }),
  );
  const base = { run_id: "run-1", at: new Date(at), wait_id: "wait-1" };
  assert.deepEqual(await server.client.runs.events.list("run-1"), [
    { ...base, type: "token_wait", kind: "token", ...opened },
    { ...base, type: "token_wait_completed", payload: null },
    { ...base, type: "timer_wait_timed_out" },
    { ...base, type: "token_wait_cancelled" },
    { ...base, type: "token_wait_failed" },
  ]);
});

const failures: [string, Error, { [Symbol.hasInstance](value: unknown): boolean }][] = [
  ["ConcurrentWaitError", new ConcurrentWaitError("one at a time"), ConcurrentWaitError],
  ["WaitTimeoutError", new WaitTimeoutError("nobody answered", "5s"), WaitTimeoutError],
  ["WaitCancelledError", new WaitCancelledError("not needed"), WaitCancelledError],
];

for (const [name, error, kind] of failures)
  test(`a ${name} of another copy of the package is known by its brand`, () => {
    assert.equal(error.name, name);
    const foreign = new Error(error.message);
    assert.ok(!kind[Symbol.hasInstance](foreign));
    Object.defineProperty(foreign, Symbol.for(`helmr.sdk.${name}`), { value: true });
    assert.ok(kind[Symbol.hasInstance](foreign) && kind[Symbol.hasInstance](error));
  });
