import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { browserMissing, inBrowser } from "./browser.ts";
import { json, TestServer } from "./server.ts";
import type { Answer } from "./server.ts";

const allowed = "authorization, content-type, helmr-api-version, helmr-sdk-version";

/** As the server treats other origins: any may come, with these headers and no others. */
const crossOrigin =
  (answer: Answer): Answer =>
  (request, response) => {
    response.setHeader("Access-Control-Allow-Origin", "*");
    if (request.method !== "OPTIONS") return answer(request, response);
    response.setHeader("Access-Control-Allow-Headers", allowed);
    response.setHeader("Access-Control-Allow-Methods", "GET, POST");
    response.writeHead(204).end();
  };

const record = (sequence: number): object => ({
  id: `r${sequence}`,
  stream_id: "s",
  sequence,
  data: { n: sequence },
  content_type: "application/json",
  created_at: "2026-01-01T00:00:00.000Z",
});

/* Runs in the page. */
const program = `
export default async ({ HelmrClient, HelmrApiError, idempotencyKeys }, { url }) => {
  const handle = new HelmrClient({ url }).sessions.open({ externalId: "thread" });
  const sent = await handle.input("messages").send({ n: 1 }, { publicAccessToken: "send" });
  const read = { publicAccessToken: "read" };
  const first = await handle.output("answers").read(read);
  const sequences = [];
  for await (const { sequence } of handle.output("answers").subscribe(read)) {
    sequences.push(sequence);
    if (sequences.length === 3) break;
  }
  const refused = await handle.output("refused").list(read).catch((error) => error);
  const key = await idempotencyKeys.create("a", { scope: "global" });
  const kind = refused instanceof HelmrApiError && refused.code;
  return { sent: sent.sequence, first: first.data.n, sequences, kind, key: key.value };
};`;

test(
  "a page of another origin sends and follows with public access tokens",
  { skip: browserMissing },
  async () => {
    let connections = 0;
    await using server = await TestServer.start(
      crossOrigin((request, response) => {
        if (request.url.includes("refused"))
          return json(409, { error: "no", code: "stream_direction_mismatch" })(request, response);
        if (request.method === "POST")
          return json(201, { record: record(1), is_cached: false })(request, response);
        if (request.url.includes("/read"))
          return json(200, { record: record(1) })(request, response);
        response.writeHead(200, { "content-type": "text/event-stream" });
        const from = connections++ === 0 ? 1 : 2;
        response.write(`id: ${from}\ndata: ${JSON.stringify(record(from))}\n\n`);
        /* The first connection breaks; the next goes on after what was seen. */
        if (from === 1) return setTimeout(() => response.destroy(), 20);
        return response.write(`id: 3\ndata: ${JSON.stringify(record(3))}\n\n`);
      }),
    );
    const told = await inBrowser(program, { url: server.url });
    const key = createHash("sha256").update('{"scope":"global","key":["a"]}').digest("hex");
    const kind = "stream_direction_mismatch";
    assert.deepEqual(told, { sent: 1, first: 1, sequences: [1, 2, 3], kind, key });
    const asked = server.asked.filter(({ method }) => method !== "OPTIONS");
    assert.ok(asked.every(({ headers }) => headers.origin?.startsWith("http://127.0.0.1:")));
    const streams = asked.filter(({ headers }) => headers.accept === "text/event-stream");
    assert.match(streams[1]?.url ?? "", /cursor=1$/);
  },
);
