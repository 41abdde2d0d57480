// Streams as a task uses them, over a run that the test plays.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { PayloadSchemaValidationError, streams, WaitTimeoutError } from "@helmr/sdk";
import type { StandardSchemaV1 } from "@helmr/sdk";

const globals = globalThis as unknown as Record<symbol, unknown>;
const runSymbol = Symbol.for("helmr.sdk.runRuntime");
const registrySymbol = Symbol.for("helmr.sdk.DefinitionRegistry");

interface Asked {
  kind: string;
  body: any;
}

/** A run that answers with what the test gives, one after another. */
function insideRun(answers: unknown[]): Asked[] {
  const asked: Asked[] = [];
  const next = async (kind: string, body: object): Promise<unknown> => {
    asked.push({ kind, body: JSON.parse(JSON.stringify(body)) });
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const runtime = {
    positions: new Map<string, number>(),
    operate: next,
    wait: (body: object) => next("wait", body),
  };
  Object.defineProperty(globals, runSymbol, { value: runtime, configurable: true });
  return asked;
}

afterEach(() => {
  Object.defineProperty(globals, runSymbol, { value: undefined, configurable: true });
  Object.defineProperty(globals, registrySymbol, { value: undefined, configurable: true });
});

const record = (sequence: number, data: unknown): object => ({
  id: `r${sequence}`,
  stream_id: "s",
  sequence,
  data,
  content_type: "application/json",
  created_at: "2026-11-16T00:00:00.000Z",
});

const came = (sequence: number, data: unknown): object => ({
  condition: "completed",
  data: record(sequence, data),
});

const even: StandardSchemaV1<number, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "number" && value % 2 === 0
        ? { value: value / 2 }
        : { issues: [{ message: "must be even" }] },
  },
};

test("a stream is registered where a project is indexed, and nowhere else", () => {
  const registry = { queues: [], streams: [] as object[] };
  Object.defineProperty(globals, registrySymbol, { value: registry, configurable: true });
  streams.input("in", { schema: even });
  streams.output("out");
  assert.deepEqual(registry.streams, [
    { name: "in", direction: "input", schema: even },
    { name: "out", direction: "output", schema: undefined },
  ]);
});

for (const [what, make] of [
  ["a bad name", () => streams.input("-x")],
  ["no name", () => streams.output("")],
  ["an unknown option", () => streams.input("a", { x: 1 } as object)],
  ["what is no schema", () => streams.output("a", { schema: {} as StandardSchemaV1 })],
] as const)
  test(`${what} is refused`, () => assert.throws(make, TypeError));

test("outside a run everything says so", async () => {
  const input = streams.input("in");
  const output = streams.output("out");
  for (const use of [
    () => input.wait(),
    () => input.once(),
    () => input.on(() => undefined),
    () => output.writer(),
  ])
    assert.throws(use, /can only be used inside a run/);
  for (const use of [
    () => input.peek(),
    () => output.append(1),
    () => output.pipe([1]),
    () => output.read(),
    () => output.list(),
  ])
    await assert.rejects(use, /can only be used inside a run/);
});

test("a wait goes on behind the record of the one before, by correlation id", async () => {
  const asked = insideRun([came(3, "a"), came(4, "b"), came(9, "c"), came(10, "d")]);
  const input = streams.input<string>("in");
  const first = input.wait({ timeout: "7d", idleTimeout: 0, tags: ["t"], metadata: { m: 1 } });
  const second = input.wait();
  assert.equal(await first.unwrap(), "a");
  assert.equal((await second).data, "b");
  await input.wait({ correlationId: "c" });
  await input.wait({ cursor: 1 });
  assert.deepEqual(
    asked.map(({ body }) => body.params),
    [
      { stream: "in" },
      { stream: "in", cursor: 3 },
      { stream: "in", correlation_id: "c" },
      { stream: "in", cursor: 1 },
    ],
  );
  const { params: _, ...words } = asked[0]?.body;
  assert.deepEqual(words, {
    kind: "stream",
    timeout: "604800s",
    idle_timeout: "0s",
    metadata: { m: 1 },
    tags: ["t"],
  });
});

test("a value that the schema refuses is consumed and told", async () => {
  const asked = insideRun([came(1, 3), came(2, 4)]);
  const input = streams.input("in", { schema: even });
  const refused = await input.wait();
  assert.equal(refused.ok, false);
  assert(refused.error instanceof PayloadSchemaValidationError);
  assert.match(refused.error.message, /a record of in: must be even/);
  assert.equal(await input.wait().unwrap(), 2);
  assert.equal(asked[1]?.body.params.cursor, 1);
});

test("once is live, and times out", async () => {
  const asked = insideRun([{ condition: "expired" }]);
  await assert.rejects(streams.input("in").once({ timeout: 5 }).unwrap(), WaitTimeoutError);
  assert.deepEqual(asked[0]?.body, {
    kind: "stream",
    params: { stream: "in", live: true },
    timeout: "5s",
  });
});

test("on hands over one record after another until it is told to stop", async () => {
  let release = (_: object): void => undefined;
  const blocked = new Promise<object>((resolve) => (release = resolve));
  const asked = insideRun([came(1, "a"), came(2, "b"), blocked, null, came(3, "c")]);
  const input = streams.input<string>("in");
  const heard: unknown[] = [];
  const listener = input.on(async (data, { sequence }) => heard.push([data, sequence]), {
    timeout: "1m",
  });
  while (asked.length < 3) await new Promise((resolve) => setImmediate(resolve));
  const off = listener.off();
  assert.equal(asked[3]?.kind, "wait.cancel");
  release(came(3, "c"));
  await off;
  await listener.done;
  assert.deepEqual(heard, [
    ["a", 1],
    ["b", 2],
  ]);
  assert.equal(asked[0]?.body.timeout, "60s");
  assert.equal(asked[1]?.body.timeout, undefined);
  /* What came when nobody listened is the next one's. */
  assert.equal(await input.wait().unwrap(), "c");
  assert.equal(asked[4]?.body.params.cursor, 2);
});

test("on ends with what the handler throws", async () => {
  insideRun([came(1, "a")]);
  const listener = streams.input("in").on(() => {
    throw new Error("no more");
  });
  await assert.rejects(listener.done, /no more/);
});

test("peek looks from the position and leaves it", async () => {
  const asked = insideRun([came(5, 2), record(6, 4), null, came(6, 4)]);
  const input = streams.input("in", { schema: even });
  await input.wait();
  assert.equal((await input.peek())?.data, 2);
  assert.equal(await input.peek({ cursor: 9 }), null);
  await input.wait();
  assert.deepEqual(
    asked.map(({ kind, body }) => [kind, body.cursor ?? body.params?.cursor]),
    [
      ["wait", undefined],
      ["stream.read", 5],
      ["stream.read", 9],
      ["wait", 5],
    ],
  );
});

test("an output checks a value, then appends it as it is", async () => {
  const asked = insideRun([record(1, 4)]);
  const output = streams.output("out", { schema: even });
  const made = await output.append(4, { contentType: "text/x", correlationId: "c" });
  assert.equal(made.sequence, 1);
  assert(made.createdAt instanceof Date);
  assert.deepEqual(asked[0], {
    kind: "stream.append",
    body: { stream: "out", data: 4, content_type: "text/x", correlation_id: "c" },
  });
  await assert.rejects(output.append(3), PayloadSchemaValidationError);
  await assert.rejects(output.append(undefined as unknown as number), TypeError);
  await assert.rejects(output.append(2, { correlationId: " c" }), TypeError);
  assert.equal(asked.length, 1);
});

test("pipe and writer append in order", async () => {
  const asked = insideRun([1, 2, 3, 4, 5].map((n) => record(n, n)));
  const output = streams.output<number>("out");
  async function* source() {
    yield 1;
    yield 2;
  }
  assert.equal(await output.pipe(source()), 2);
  assert.equal(await output.pipe([3]), 1);
  const writer = output.writer();
  void writer.write(4);
  void writer.write(5);
  await writer.close();
  assert.deepEqual(
    asked.map(({ body }) => body.data),
    [1, 2, 3, 4, 5],
  );
  await assert.rejects(writer.write(6), /closed/);
});

test("a list is followed over answers that were cut", async () => {
  const asked = insideRun([
    { records: [record(1, 1), record(2, 2)], is_cut: true },
    { records: [record(3, 3)], is_cut: false },
  ]);
  const all = await streams.output("out").list({ limit: 3 });
  assert.deepEqual(
    all.map(({ sequence }) => sequence),
    [1, 2, 3],
  );
  assert.deepEqual(
    asked.map(({ body }) => [body.cursor, body.limit]),
    [
      [0, 3],
      [2, 1],
    ],
  );
});
