// Streams between a session's runs and the world: inputs that answer waits, outputs that are
// followed, and sessions that go on when somebody speaks.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { HelmrApiError } from "@helmr/sdk";
import type { RunSnapshot, SessionHandle } from "@helmr/sdk";
import { client, deployed, printed, runEvents, url } from "./lib/helmr.ts";
import { until } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";

const files: Files = {
  "tasks/a.ts": `import { image, sandbox, streams, task } from "@helmr/sdk";
const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"));

const even = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) =>
      typeof value === "number" && value % 2 === 0
        ? { value }
        : { issues: [{ message: "must be even" }] },
  },
};

const approval = streams.input<{ ok: boolean }>("approval");
const words = streams.input<string>("words");
const numbers = streams.input("numbers", { schema: even });
const replies = streams.output<unknown>("replies");
const evens = streams.output("evens", { schema: even });

export const parks = task({
  id: "parks",
  sandbox: box,
  run: async (event: { id: string }, ctx) => {
    const answer = await approval.wait({ correlationId: event.id, idleTimeout: 0, timeout: "1h" });
    return { ...answer.unwrap(), resumes: ctx.run.snapshotVersion };
  },
});

export const hears = task({
  id: "hears",
  sandbox: box,
  run: async (ctx) => {
    const first = await words.once({ timeout: "10m" }).unwrap();
    const late = await words.once({ timeout: "100ms" });
    const heard: string[] = [];
    const listener = words.on(async (word) => {
      heard.push(word);
      await replies.append({ heard: word });
      if (word === "stop") void listener.off();
    });
    await listener.done;
    const peeked = await words.peek();
    const next = await words.wait().unwrap();
    return { first, late: late.error?.name, heard, peeked: peeked?.data, next };
  },
});

export const refuses = task({
  id: "refuses",
  sandbox: box,
  run: async (ctx) => {
    const odd = await numbers.wait();
    const fine = await numbers.wait().unwrap();
    const refused = await evens.append(3).catch((error: Error) => error.name);
    return { odd: odd.error?.name, fine, refused };
  },
});

export const writes = task({
  id: "writes",
  sandbox: box,
  run: async (ctx) => {
    const made = await evens.append(2, { contentType: "text/plain" });
    async function* source() {
      for (let n = 4; n <= 10; n += 2) yield n;
    }
    const piped = await evens.pipe(source());
    const writer = evens.writer({ correlationId: "w" });
    void writer.write(12);
    await writer.write(14);
    await writer.close();
    const all = await evens.list();
    return {
      first: made.sequence,
      piped,
      all: all.map(({ sequence, data }) => [sequence, data]),
      mine: (await evens.list({ correlationId: "w" })).length,
      third: (await evens.read({ cursor: 2 }))?.data,
    };
  },
});

export const counts = task({
  id: "counts",
  sandbox: box,
  run: async (event: { n: number }, ctx) => {
    for (let i = 1; i <= event.n; i++) await replies.append(i);
    await words.wait({ timeout: "1h", idleTimeout: "1h" });
  },
});

export const echoes = task({
  id: "echoes",
  sandbox: box,
  run: async (ctx) => {
    const word = await words.wait({ timeout: "1h" }).unwrap();
    await replies.append({ echo: word });
    return word;
  },
});
`,
};

// Sessions are started with the current deployment.
const deploymentId = await deployed(project({ after }, files));
await printed(["deployment", "promote", deploymentId]);

async function begun(task: string, payload?: unknown): Promise<[SessionHandle, string]> {
  const { session, run } = await client.sessions.start(task, payload);
  return [client.sessions.open(session.id), run.id];
}

async function succeeded(run: string): Promise<RunSnapshot & { output: any }> {
  const over = await client.runs.wait(run, { timeoutMs: 300_000 });
  assert.equal(over.status, "succeeded", JSON.stringify(over.error));
  return over as RunSnapshot & { output: any };
}

const waits = (run: string, suspension: string): Promise<void> =>
  until(`${run} waits, ${suspension}`, async () => {
    const { pendingWait, isTerminal, error } = await client.runs.retrieve(run);
    assert.ok(!isTerminal, JSON.stringify(error));
    return pendingWait?.condition === "pending" && pendingWait.suspension === suspension;
  });

test("a parked run is resumed by its record, once", async () => {
  const [session, run] = await begun("parks", { id: "req-1" });
  await waits(run, "parked");
  const input = session.input("approval");
  await input.send({ ok: false }, { correlationId: "req-2" });
  const key = { correlationId: "req-1", idempotencyKey: "click" };
  const sent = await input.send({ ok: true }, key);
  const again = await input.send({ ok: true }, key);
  assert.deepEqual([sent.isCached, again.isCached, again.id], [false, true, sent.id]);
  await assert.rejects(input.send({ ok: false }, key), (error: unknown) => {
    assert.ok(error instanceof HelmrApiError);
    return /idempotency_fingerprint_mismatch/.test(error.message);
  });
  const { output } = await succeeded(run);
  assert.deepEqual(output, { ok: true, resumes: 1 });
  const events = await runEvents(run);
  const kinds = ["run_wait.completed", "run.resumed"];
  for (const kind of kinds) assert.equal(events.filter((event) => event.kind === kind).length, 1);
});

test("a program listens while it runs, and goes on with what it did not take", async () => {
  const [session, run] = await begun("hears");
  const words = session.input("words");
  await waits(run, "hot");
  await words.send("first");
  const replies = session.output("replies").subscribe();
  await until("the run listens", async () => {
    const { pendingWait } = await client.runs.retrieve(run);
    return pendingWait?.condition === "pending" && pendingWait.timeout === undefined;
  });
  for (const word of ["a", "b", "stop"]) {
    await words.send(word);
    const { value } = await replies.next();
    assert.deepEqual((value as { data: unknown }).data, { heard: word });
  }
  await words.send("left");
  const { output } = await succeeded(run);
  assert.deepEqual(output.late, "WaitTimeoutError");
  assert.deepEqual(output.heard, ["a", "b", "stop"]);
  assert.equal(output.first, "first");
  assert.equal(output.next, "left");
  await replies.return(undefined);
});

test("schemas refuse what comes in and what goes out", async () => {
  const [session, run] = await begun("refuses");
  await session.input("numbers").send(3);
  await session.input("numbers").send(4);
  const { output } = await succeeded(run);
  const name = "PayloadSchemaValidationError";
  assert.deepEqual(output, { odd: name, fine: 4, refused: name });
  assert.deepEqual(await session.output("evens").list(), []);
});

test("a program writes one by one, from a source and with a writer", async () => {
  const [session, run] = await begun("writes");
  const { output } = await succeeded(run);
  const all = [2, 4, 6, 8, 10, 12, 14].map((data, i) => [i + 1, data]);
  assert.deepEqual(output, { first: 1, piped: 4, all, mine: 2, third: 6 });
  const seen = await session.output("evens").list();
  assert.deepEqual(
    seen.map(({ sequence, data }) => [sequence, data]),
    all,
  );
  assert.equal(seen[0]?.contentType, "text/plain");
});

/** Reads frames of a live stream until `enough` came or it ends; gives their ids. */
async function heard(address: string, token: string, after: string, enough: number) {
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
  const response = await fetch(address, {
    headers: { ...headers, "last-event-id": after, origin: "https://elsewhere.example" },
    signal: stop.signal,
  });
  assert.equal(response.status, 200, await (response.ok ? "" : response.text()));
  assert.equal(response.headers.get("access-control-allow-origin"), "*");
  const ids: string[] = [];
  let rest = "";
  try {
    for await (const bytes of response.body as AsyncIterable<Uint8Array>) {
      rest += Buffer.from(bytes).toString();
      const frames = rest.split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const id = /^id: (.*)$/m.exec(frame)?.[1];
        if (id !== undefined && ids.length < enough) ids.push(id);
      }
      if (ids.length >= enough) stop.abort();
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  }
  return ids;
}

test("a reader whose connection is cut again and again misses nothing", async () => {
  const n = 60;
  const [session, run] = await begun("counts", { n });
  const { publicAccessToken } = await client.auth.createPublicToken({
    scope: { type: "session.output.read", session, stream: "replies" },
  });
  const address = `${url}/api/v1/sessions/${session.id}/outputs/replies`;
  const ids: string[] = [];
  for (let step = 1; ids.length < n; step = (step % 7) + 1) {
    const enough = Math.min(step, n - ids.length);
    ids.push(...(await heard(address, publicAccessToken, ids.at(-1) ?? "0", enough)));
  }
  assert.deepEqual(
    ids.map(Number),
    Array.from({ length: n }, (_, i) => i + 1),
  );
  const other = await fetch(address.replace("replies", "evens"), {
    headers: { authorization: `Bearer ${publicAccessToken}` },
  });
  assert.equal(other.status, 401);
  /* A live stream ends with its session. */
  const ending = heard(address, publicAccessToken, String(n), 1);
  await session.cancel({ reason: "enough" });
  assert.deepEqual(await ending, []);
  await client.runs.wait(run, { timeoutMs: 300_000 });
});

test("a session goes on when somebody with a public token speaks to it", async () => {
  const [session, first] = await begun("echoes");
  const { publicAccessToken } = await client.auth.createPublicToken({
    scope: { type: "session.input.send", session, stream: "words" },
    maxUses: 3,
  });
  const words = session.input("words");
  const send = (word: string) => words.send(word, { publicAccessToken });
  await waits(first, "hot");
  assert.equal((await send("one")).continuationStatus, undefined);
  assert.equal((await succeeded(first)).output, "one");
  for (const word of ["two", "three"]) {
    assert.equal((await send(word)).continuationStatus, "created");
    const { currentRunId } = await session.retrieve();
    assert.equal((await succeeded(currentRunId as string)).output, word);
  }
  await assert.rejects(send("four"));
  const runs = await session.runs();
  assert.deepEqual(
    runs.map(({ output }) => output),
    ["one", "two", "three"],
  );
  const replies = await session.output("replies").list();
  assert.deepEqual(
    replies.map(({ data }) => data),
    ["one", "two", "three"].map((echo) => ({ echo })),
  );
  await session.close();
});
