import assert from "node:assert/strict";
import { test } from "node:test";
import {
  AuthError,
  HelmrApiError,
  HelmrClient,
  image,
  PayloadSchemaValidationError,
  RunNotFoundError,
  sandbox,
  task,
  TimeoutError,
  UnsupportedTransportError,
} from "@helmr/sdk";
import type { RunEvent, StandardSchemaV1 } from "@helmr/sdk";
import { json, sse, TestServer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const run = (status: string, more: object = {}): Record<string, unknown> => ({
  id: "run-1",
  session_id: "session-1",
  workspace_id: "workspace-1",
  task_id: "hello",
  status,
  exit_code: null,
  metadata: {},
  tags: ["a"],
  payload: { n: 1 },
  deployment_version: "20260101.1",
  api_version: "2026-06-06",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:01.000Z",
  ...more,
});

const event = (cursor: number, kind: string, attributes: object = {}): string => {
  const record = {
    id: `e${cursor}`,
    cursor: String(cursor),
    run_id: "run-1",
    kind,
    at: "2026-01-01T00:00:00Z",
    attributes,
  };
  return `id: ${cursor}\nevent: run_event\ndata: ${JSON.stringify(record)}`;
};

async function all(events: AsyncIterable<RunEvent>): Promise<string[]> {
  const types: string[] = [];
  for await (const one of events) types.push(one.type);
  return types;
}

const badUrls: [string, string][] = [
  ["http on another machine", "http://example.com"],
  ["another scheme", "ftp://127.0.0.1"],
  ["a query", "https://example.com/?a=1"],
  ["a fragment", "https://example.com/#a"],
  ["no URL at all", "example.com"],
];

for (const [what, url] of badUrls)
  test(`a client of ${what} is refused`, () => {
    assert.throws(() => new HelmrClient({ url }), UnsupportedTransportError);
  });

test("a client needs a server", () => {
  delete process.env.HELMR_API_URL;
  assert.throws(() => new HelmrClient(), UnsupportedTransportError);
  assert.doesNotThrow(() => new HelmrClient({ url: "https://example.com/base" }));
});

test("a request carries key, versions and only what was given", async () => {
  await using server = await TestServer.start(json(201, run("queued")));
  const handle = await server.client.tasks.trigger(
    "hello",
    { n: 1 },
    { queue: "q", ttl: 90, maxDuration: "1m", tags: ["a"] },
  );
  assert.deepEqual(handle, { id: "run-1", taskId: "hello", sessionId: "session-1" });
  const [asked] = server.asked;
  assert.deepEqual([asked?.method, asked?.url], ["POST", "/api/runs"]);
  assert.equal(asked?.headers.authorization, "Bearer key-1");
  assert.equal(asked?.headers["helmr-api-version"], "2026-06-06");
  assert.match(String(asked?.headers["helmr-sdk-version"]), /^\d+\.\d+\.\d+$/);
  assert.deepEqual(asked?.body, {
    task_id: "hello",
    payload: { n: 1 },
    options: { queue: { name: "q" }, ttl: "90s", max_duration_seconds: 60, tags: ["a"] },
  });
});

test("a retry policy is sent in the server's words", async () => {
  await using server = await TestServer.start(json(201, run("queued")));
  await server.client.tasks.trigger("hello", undefined, { retry: { maxAttempts: 2 } });
  assert.deepEqual((server.asked[0]?.body as { options: { retry: unknown } }).options.retry, {
    enabled: true,
    max_attempts: 2,
    backoff: { min_ms: 1000, max_ms: 30_000, factor: 2, jitter: "full" },
  });
});

test("a project and environment go into the path", async () => {
  await using server = await TestServer.start(json(200, { runs: [], next_cursor: "c2" }));
  const page = await server.client.runs.listPage({
    projectId: "p 1",
    environmentId: "e",
    status: "all",
    limit: 5,
  });
  assert.deepEqual(page, { runs: [], nextCursor: "c2" });
  assert.equal(server.asked[0]?.url, "/api/projects/p%201/environments/e/runs?status=all&limit=5");
});

test("a task object's payload is checked before anything is sent", async () => {
  const payload: StandardSchemaV1<{ n: number }> = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value) =>
        typeof (value as { n?: unknown }).n === "number"
          ? { value: value as { n: number } }
          : { issues: [{ message: "must be a number", path: ["n"] }] },
    },
  };
  const sbx = sandbox("s").image(image("i").from("a"));
  const subject = task({ id: "hello", sandbox: sbx, payload, run: async ({ n }) => n });
  await using server = await TestServer.start(json(201, run("queued")));
  await assert.rejects(
    server.client.tasks.trigger(subject, { n: "x" } as never),
    PayloadSchemaValidationError,
  );
  assert.equal(server.asked.length, 0);
  await server.client.tasks.trigger(subject, { n: 1 });
  assert.equal(server.asked.length, 1);
});

test("401 is an AuthError", async () => {
  await using server = await TestServer.start(
    json(401, { error: "no", code: "authentication_required" }),
  );
  await assert.rejects(
    server.client.runs.list(),
    (error) => error instanceof AuthError && error.message === "no",
  );
});

test("404 on a run is a RunNotFoundError", async () => {
  await using server = await TestServer.start(json(404, { error: "no", code: "not_found" }));
  await assert.rejects(
    server.client.runs.retrieve("run-1"),
    (error) => error instanceof RunNotFoundError && error.runId === "run-1",
  );
  await assert.rejects(all(server.client.runs.events.subscribe("run-1")), RunNotFoundError);
});

test("another status is a HelmrApiError with code, details and the body in its text", async () => {
  const body = { error: "no", code: "task_not_deployed", details: { task: "x" } };
  await using server = await TestServer.start(json(409, body));
  await assert.rejects(server.client.tasks.trigger("x"), (error) => {
    assert.ok(error instanceof HelmrApiError);
    const { status, code, details, requestId, message } = error;
    assert.deepEqual(
      [status, code, details, requestId],
      [409, "task_not_deployed", { task: "x" }, "req-1"],
    );
    assert.equal(message, `Helmr API 409: ${JSON.stringify(body)}`);
    return true;
  });
});

test("an answer that is not JSON is still an error of the API", async () => {
  await using server = await TestServer.start((_request, response) =>
    response.writeHead(502).end("bad gateway"),
  );
  await assert.rejects(server.client.runs.list(), /Helmr API 502: bad gateway/);
});

test("a snapshot has dates, booleans and no nulls", async () => {
  const error = { layer: "task_process", failure_kind: "task_failed", message: "no" };
  const record = run("failed", {
    exit_code: 1,
    error,
    output: null,
    finished_at: "2026-01-01T00:00:02.000Z",
    started_at: null,
  });
  await using server = await TestServer.start(json(200, record));
  const snapshot = await server.client.runs.retrieve({ id: "run-1" });
  assert.deepEqual(snapshot.error, {
    layer: "task_process",
    failureKind: "task_failed",
    message: "no",
  });
  assert.deepEqual(snapshot.finishedAt, new Date("2026-01-01T00:00:02.000Z"));
  assert.deepEqual(
    [snapshot.isTerminal, snapshot.isFailed, snapshot.isSuccess, snapshot.exitCode],
    [true, true, false, 1],
  );
  assert.ok(!("output" in snapshot) && !("startedAt" in snapshot));
});

test("logs are decoded", async () => {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  await using server = await TestServer.start(
    json(200, {
      stdout_base64: base64("héllo\n"),
      stderr_base64: "",
      cursor: "9",
      stdout_bytes: 7,
      stderr_bytes: 0,
      truncated: false,
    }),
  );
  assert.deepEqual(await server.client.runs.logs.retrieve("run-1"), {
    stdout: "héllo\n",
    stderr: "",
    cursor: "9",
    truncated: false,
  });
});

test("a cancel tells what became of it", async () => {
  const operation = {
    id: "o",
    run_id: "run-1",
    kind: "cancel",
    status: "pending",
    created_at: "2026-01-01T00:00:00Z",
  };
  await using server = await TestServer.start(json(200, { run: run("running"), operation }));
  const answer = await server.client.runs.cancel("run-1", { reason: "enough", force: true });
  assert.equal(answer.operation.status, "pending");
  assert.deepEqual(server.asked[0]?.body, { reason: "enough", force: true });
});

test("listing events follows the pages and leaves unknown kinds out", async () => {
  const record = (kind: string): object => ({
    id: "e",
    cursor: "1",
    run_id: "run-1",
    kind,
    at: "2026-01-01T00:00:00Z",
    attributes: { exit_code: 0 },
  });
  await using server = await TestServer.start(
    json(200, {
      events: [record("run.created"), record("log.stdout")],
      cursor: "1",
      next_cursor: "n1",
    }),
    json(200, { events: [record("run.completed")], cursor: "2" }),
  );
  const events = await server.client.runs.events.list("run-1", { pageSize: 2 });
  assert.deepEqual(
    events.map(({ type }) => type),
    ["log", "task_result"],
  );
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    ["/api/runs/run-1/events?limit=2", "/api/runs/run-1/events?cursor=n1&limit=2"],
  );
});

test("a subscription goes on from its last cursor and ends with the run", async () => {
  await using server = await TestServer.start(
    sse(event(1, "run.created"), event(2, "log.stdout")),
    (_request, response) => response.destroy(),
    json(503, { error: "later", code: "service_unavailable" }),
    sse(
      ": keep-alive",
      event(3, "log.stderr"),
      event(4, "run.completed", { exit_code: 0 }),
      event(5, "run.forked"),
    ),
  );
  assert.deepEqual(await all(server.client.runs.events.subscribe("run-1")), [
    "log",
    "log",
    "task_result",
  ]);
  assert.deepEqual(
    server.asked.map(({ headers }) => headers["last-event-id"]),
    [undefined, "2", "2", "2"],
  );
});

test("a subscription after the last event ends, once the run is seen to be over", async () => {
  await using server = await TestServer.start(
    sse(),
    json(200, run("running")),
    sse(),
    json(200, run("succeeded")),
  );
  assert.deepEqual(await all(server.client.runs.events.subscribe("run-1", { cursor: "9" })), []);
  assert.equal(server.asked.length, 4);
});

test("what a task emits and writes about itself are events", async () => {
  await using server = await TestServer.start(
    sse(
      event(1, "emit.progress", { type: "progress", content: [1, "a"] }),
      event(2, "run.metadata.updated", { operation: "set", key: "k" }),
      event(3, "run_wait.created", { kind: "stream", wait_id: "w" }),
      event(4, "run_wait.completed", { kind: "stream", wait_id: "w", payload: null }),
      event(5, "run.expired", { ttl: "1s" }),
    ),
  );
  const seen: RunEvent[] = [];
  for await (const one of server.client.runs.events.subscribe("run-1")) seen.push(one);
  const [emit, updated, wait, completed] = seen;
  assert.ok(emit?.type === "emit" && emit.event_type === "progress");
  assert.deepEqual(emit.content, [1, "a"]);
  assert.ok(updated?.type === "metadata_updated" && updated.operation === "set");
  assert.equal(updated.key, "k");
  assert.deepEqual([wait?.type, completed?.type], ["stream_wait", "stream_wait_completed"]);
});

test("waiting goes on after the last event it saw", async () => {
  await using server = await TestServer.start(
    json(200, run("running")),
    sse(event(1, "run.created"), event(2, "log.stdout"), "data: {"),
    json(200, run("running")),
    sse(event(3, "run.completed", { exit_code: 0 })),
    json(200, run("succeeded")),
  );
  await server.client.runs.wait("run-1", { intervalMs: 1 });
  assert.equal(server.asked[3]?.headers["last-event-id"], "2");
});

test("a malformed event with an id is skipped, one without is an error", async () => {
  await using good = await TestServer.start(
    sse("id: 1\ndata: {", event(2, "run.failed", { layer: "l", failure_kind: "k" })),
  );
  assert.deepEqual(await all(good.client.runs.events.subscribe("run-1")), ["run_failed"]);
  await using bad = await TestServer.start(sse("data: {"));
  await assert.rejects(all(bad.client.runs.events.subscribe("run-1")), /cannot be read/);
});

test("waiting ends with the snapshot of a run that is over", async () => {
  await using server = await TestServer.start(
    json(200, run("running")),
    sse(event(1, "run.completed", { exit_code: 0 })),
    json(200, run("succeeded", { exit_code: 0, output: { a: 1 } })),
  );
  const { status, output } = await server.client.runs.wait("run-1", { timeoutMs: 10_000 });
  assert.deepEqual([status, output], ["succeeded", { a: 1 }]);
});

test("waiting asks again when events are not to be had", async () => {
  await using server = await TestServer.start(
    json(200, run("running")),
    json(400, { error: "no", code: "invalid_request" }),
    json(200, run("succeeded")),
  );
  assert.equal((await server.client.runs.wait("run-1", { intervalMs: 1 })).status, "succeeded");
});

test("waiting outlives a server that is away, and not one that refuses", async () => {
  await using server = await TestServer.start(
    json(503, { error: "starting", code: "service_unavailable" }),
    (_request, response) => response.destroy(),
    json(200, run("succeeded")),
    json(403, { error: "no", code: "permission_required" }),
  );
  assert.equal((await server.client.runs.wait("run-1", { intervalMs: 1 })).status, "succeeded");
  await assert.rejects(server.client.runs.wait("run-1", { intervalMs: 1 }), /permission_required/);
});

test("waiting gives up at its own limit or the caller's word", async () => {
  await using server = await TestServer.start(({ headers }, response) => {
    if (headers.accept !== "text/event-stream")
      json(200, run("running"))(undefined as never, response);
    else response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
  });
  await assert.rejects(server.client.runs.wait("run-1", { timeoutMs: 50 }), TimeoutError);
  const stop = new AbortController();
  const waiting = server.client.runs.wait("run-1", { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("tasks of the current deployment are listed", async () => {
  const record = {
    id: "dt",
    task_id: "hello",
    deployment_id: "d",
    deployment_version: "v",
    file_path: "tasks/a.ts",
    export_name: "a",
    sandbox_id: "s",
    accepts_payload: true,
    max_duration_seconds: 900,
    queue: "task/hello",
    preload: false,
    preload_reason: "tasks/a.ts:1 reads the clock",
  };
  await using server = await TestServer.start(json(200, { tasks: [record] }));
  const [first] = await server.client.tasks.list();
  assert.deepEqual([first?.preload, first?.preloadReason], [false, "tasks/a.ts:1 reads the clock"]);
  assert.deepEqual([first?.taskId, first?.exportName, first?.acceptsPayload], ["hello", "a", true]);
});
