import assert from "node:assert/strict";
import { test } from "node:test";
import { PayloadSchemaValidationError, streams, UnsupportedTransportError } from "@helmr/sdk";
import type { StandardSchemaV1, StreamRecord } from "@helmr/sdk";
import { json, sse, TestServer } from "./server.ts";

/* The warning about plain HTTP on loopback is expected in every test here. */
console.warn = () => undefined;

const record = (sequence: number, data: unknown = { n: sequence }): Record<string, unknown> => ({
  id: `r${sequence}`,
  stream_id: "s",
  sequence,
  data,
  correlation_id: null,
  content_type: "application/json",
  created_at: "2026-01-01T00:00:00.000Z",
});

const frame = (sequence: number): string =>
  `id: ${sequence}\nevent: stream_record\ndata: ${JSON.stringify(record(sequence))}`;

async function sequences(records: AsyncIterable<StreamRecord>): Promise<number[]> {
  const all: number[] = [];
  for await (const { sequence } of records) all.push(sequence);
  return all;
}

test("input is sent with its options, and its answer is the record", async () => {
  const answer = { record: record(1), is_cached: true, continuation_status: "created" };
  await using server = await TestServer.start(json(201, answer));
  const sent = await server.client.sessions
    .open("session-1")
    .input("approval")
    .send({ n: 1 }, { correlationId: "c", idempotencyKey: "k", contentType: "text/x" });
  assert.deepEqual(sent, {
    id: "r1",
    streamId: "s",
    sequence: 1,
    data: { n: 1 },
    contentType: "application/json",
    createdAt: new Date("2026-01-01T00:00:00.000Z"),
    isCached: true,
    continuationStatus: "created",
  });
  const [asked] = server.asked;
  assert.deepEqual([asked?.method, asked?.url], ["POST", "/api/sessions/session-1/inputs/approval"]);
  assert.deepEqual(asked?.body, {
    data: { n: 1 },
    content_type: "text/x",
    correlation_id: "c",
    idempotency_key: "k",
  });
});

test("with a public access token no key is sent and no scope is named", async () => {
  await using server = await TestServer.start(
    json(201, { record: record(1), is_cached: false }),
    json(200, { records: [record(1)] }),
    json(200, { record: null }),
    sse(frame(1)),
    sse(),
  );
  const publicAccessToken = "hlmr_pat_x";
  const scope = { projectId: "p", environmentId: "e" };
  const handle = server.client.sessions.open({ externalId: "t" }, scope);
  await handle.input("i").send(1, { publicAccessToken });
  await handle.output("o").list({ publicAccessToken });
  assert.equal(await handle.output("o").read({ publicAccessToken }), null);
  assert.deepEqual(await sequences(handle.output("o").subscribe({ publicAccessToken })), [1]);
  const base = "/api/v1/sessions/by-external-id";
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    [
      `${base}/inputs/i?external_id=t`,
      `${base}/outputs/o?external_id=t`,
      `${base}/outputs/o/read?external_id=t`,
      `${base}/outputs/o?external_id=t`,
      `${base}/outputs/o?external_id=t&cursor=1`,
      `${base}/outputs/o?external_id=t&cursor=1`,
    ],
  );
  for (const { headers } of server.asked)
    assert.equal(headers.authorization, `Bearer ${publicAccessToken}`);
});

test("records are listed and read after a cursor", async () => {
  await using server = await TestServer.start(
    json(200, { records: [record(4), record(5)], next_cursor: "5" }),
    json(200, { record: record(6) }),
    json(200, { records: [] }),
  );
  const handle = server.client.sessions.open("session-1");
  const options = { cursor: 3, limit: 2, correlationId: "c" };
  const listed = await handle.output("o").list(options);
  assert.deepEqual(
    listed.map(({ sequence }) => sequence),
    [4, 5],
  );
  assert.equal((await handle.output("o").read({ cursor: 5 }))?.sequence, 6);
  await handle.input("i").list();
  assert.deepEqual(
    server.asked.map(({ url }) => url),
    [
      "/api/sessions/session-1/outputs/o?cursor=3&correlation_id=c&limit=2",
      "/api/sessions/session-1/outputs/o/read?cursor=5",
      "/api/sessions/session-1/inputs/i",
    ],
  );
  await assert.rejects(handle.output("o").list({ cursor: -1 }), TypeError);
});

test("a subscription survives every kind of break, loses nothing and repeats nothing", async () => {
  await using server = await TestServer.start(
    sse(": keep-alive", frame(1), frame(2)),
    (_request, response) => response.destroy(),
    sse(),
    json(503, { error: "later", code: "service_unavailable" }),
    (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`${frame(3)}\n\n${frame(4).slice(0, 20)}`, () => response.destroy());
    },
    sse(frame(4), "id: 5\ndata: {", frame(6)),
    sse(),
  );
  const output = server.client.sessions.open("session-1").output("o");
  assert.deepEqual(await sequences(output.subscribe()), [1, 2, 3, 4, 6]);
  assert.deepEqual(
    server.asked.map(({ url }) => new URL(url, "http://a").searchParams.get("cursor")),
    [null, "2", "2", "2", "2", "3", "6", "6"],
  );
});

test("a subscription ends with what the server will not take back", async () => {
  await using server = await TestServer.start(json(404, { error: "no", code: "stream_not_found" }));
  const input = server.client.sessions.open("session-1").input("i");
  await assert.rejects(sequences(input.subscribe()), /stream_not_found/);
  await using bad = await TestServer.start(sse("data: {"));
  const output = bad.client.sessions.open("session-1").output("o");
  await assert.rejects(sequences(output.subscribe()), /cannot be read/);
});

test("whoever stops listening lets go of the connection", async () => {
  let isGone: () => void = () => undefined;
  const gone = new Promise<void>((resolve) => (isGone = resolve));
  await using server = await TestServer.start((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`${frame(1)}\n\n`);
    response.on("close", () => isGone());
  });
  for await (const _record of server.client.sessions.open("s").output("o").subscribe()) break;
  await gone;
});

test("a writer and a pipe keep the order and stop at the first failure", async () => {
  const stored: unknown[] = [];
  await using server = await TestServer.start((request, response) => {
    const { data } = request.body as { data: unknown };
    if (data === "bad") return json(400, { error: "no", code: "invalid_request" })(request, response);
    stored.push(data);
    /* The later, the quicker: whoever did not wait would be overtaken. */
    const answer = json(201, { record: record(stored.length, data), is_cached: false });
    setTimeout(() => answer(request, response), Math.max(30 - stored.length * 10, 0));
  });
  const output = server.client.sessions.open("session-1").output("o");
  const writer = output.writer({ contentType: "text/plain" });
  await Promise.all([writer.write("a"), writer.write("b"), writer.write("c")]);
  await writer.close();
  await assert.rejects(writer.write("d"), /closed/);
  async function* source(): AsyncGenerator<string> {
    yield* ["e", "f"];
  }
  assert.equal(await output.pipe(source()), 2);
  await assert.rejects(output.pipe(["g", "bad", "h"]), /invalid_request/);
  const failing = output.writer();
  const writes = await Promise.allSettled(["bad", "i"].map((value) => failing.write(value)));
  assert.deepEqual(
    writes.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  await assert.rejects(failing.close(), /invalid_request/);
  assert.deepEqual(stored, ["a", "b", "c", "e", "f", "g"]);
  assert.equal((await output.append("z")).isCached, false);
});

test("a declared stream is checked by its schema, and goes its own way only", async () => {
  const schema: StandardSchemaV1<{ n: number }> = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value) =>
        typeof (value as { n?: unknown }).n === "number"
          ? { value: value as { n: number } }
          : { issues: [{ message: "must be a number", path: ["n"] }] },
    },
  };
  await using server = await TestServer.start(json(201, { record: record(1), is_cached: false }));
  const { auth, sessions } = server.client;
  const handle = sessions.open("session-1");
  const declared = streams.input("messages", { schema });
  const wrong = { n: "1" } as never;
  await assert.rejects(handle.input(declared).send(wrong), PayloadSchemaValidationError);
  assert.throws(() => handle.output(declared as never), TypeError);
  const scope = { type: "session.output.read", session: handle, stream: declared } as never;
  await assert.rejects(auth.createPublicToken({ scope }), TypeError);
  assert.equal(server.asked.length, 0);
  assert.equal((await handle.input(declared).send({ n: 1 })).sequence, 1);
});

test("what only a run can do is refused, and so are names that cannot be", async () => {
  await using server = await TestServer.start(json(200, {}));
  const handle = server.client.sessions.open("session-1");
  const input = handle.input("i");
  for (const call of [input.wait, input.once, input.on, input.peek])
    assert.throws(() => call.call(input), UnsupportedTransportError);
  assert.throws(() => handle.input("a/b"), TypeError);
  assert.throws(() => handle.output(""), TypeError);
  assert.throws(() => handle.output({ name: "o" } as never), TypeError);
  await assert.rejects(input.send(undefined), TypeError);
  assert.equal(server.asked.length, 0);
});
