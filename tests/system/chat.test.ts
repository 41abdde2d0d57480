// A conversation of a hundred turns between a page of another origin and the runs of one session,
// with a server that goes away in the middle of it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, suite, test } from "node:test";
import * as sdk from "@helmr/sdk";
import type { RunSnapshot, StreamRecord } from "@helmr/sdk";
import { browserMissing, inBrowser } from "../../sdk/typescript/test/browser.ts";
import { projects } from "./lib/helmr.ts";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";

const turns = 100;
const turnsOfRun = 20;
const page = new URL("./lib/chat_page.js", import.meta.url);

interface Heard {
  readonly n: number;
  readonly text: string;
  readonly sent: number;
  readonly sequence: number;
}

const numbers = Array.from({ length: turns }, (_, i) => i + 1);

/** The page in a browser; without one in this program, which then says where it comes from. */
async function talk(settings: { url: string }): Promise<Heard[]> {
  if (!browserMissing) return inBrowser(readFileSync(page, "utf8"), settings);
  const { default: main } = await import(page.href);
  const elsewhere: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("origin", "https://elsewhere.example");
    return fetch(input, { ...init, headers });
  };
  class Elsewhere extends sdk.HelmrClient {
    constructor(options: sdk.ClientOptions) {
      super({ ...options, fetch: elsewhere });
    }
  }
  return main({ ...sdk, HelmrClient: Elsewhere }, settings);
}

async function all(
  list: (options: { cursor: number; limit: number }) => Promise<StreamRecord<any>[]>,
): Promise<StreamRecord<any>[]> {
  const records: StreamRecord<any>[] = [];
  for (;;) {
    const page = await list({ cursor: records.at(-1)?.sequence ?? 0, limit: 30 });
    if (page.length === 0) return records;
    records.push(...page);
  }
}

suite("a chat", () => {
  const scope = declaredScope();
  let own: Own;
  let session = "";
  let heard: Heard[] = [];

  before(async () => {
    own = await startOwn(scope);
    const id = await own.deployed(`${projects}chat`);
    await own.printed(["deployment", "promote", id]);
    const started = await own.client.sessions.start("chat", { turns: turnsOfRun });
    session = started.session.id;
  });

  test("a hundred turns from another origin, across two restarts of the server", async () => {
    const grant = async (type: "session.input.send" | "session.output.read", stream: string) => {
      const scope = { type, session, stream };
      return (await own.client.auth.createPublicToken({ scope })).publicAccessToken;
    };
    const settings = {
      url: own.place.url,
      session,
      sendToken: await grant("session.input.send", "messages"),
      readToken: await grant("session.output.read", "answers"),
      turns,
    };
    const talking = talk(settings);
    const answers = own.client.sessions.open(session).output("answers");
    for (const [after, signal] of [
      [30, "SIGTERM"],
      [60, "SIGKILL"],
    ] as const) {
      await Promise.race([talking, until(`${after} answers`, () => answers.read({ cursor: after }))]);
      await own.server.end(signal);
      own.server.start();
      await ready(own.place.url);
    }
    heard = await talking;
  });

  test("the page heard every answer once and in order", () => {
    assert.deepEqual(
      heard.map(({ n, text, sent, sequence }) => [n, text, sent, sequence]),
      numbers.map((n) => [n, `heard message ${n}`, n, n]),
    );
  });

  test("so has the session: nothing is lost, doubled or out of order", async () => {
    const handle = own.client.sessions.open(session);
    const sent = await all((options) => handle.input("messages").list(options));
    const told = await all((options) => handle.output("answers").list(options));
    for (const records of [sent, told])
      assert.deepEqual(
        records.map(({ sequence, data }) => [sequence, data.n]),
        numbers.map((n) => [n, n]),
      );
  });

  test("each run had its share of turns, and the next one was made by input", async () => {
    const handle = own.client.sessions.open(session);
    let runs: RunSnapshot[] = [];
    const seen = (): string =>
      JSON.stringify(runs.map(({ status, error, attemptNumber }) => ({ status, error, attemptNumber })));
    await until("the last run to end", async () => {
      runs = await handle.runs();
      assert.ok(!runs.some(({ isFailed }) => isFailed), seen());
      return (await handle.retrieve()).canClose;
    }).catch(async (error: unknown) => {
      const { activity } = await handle.retrieve();
      const told = (await own.runEvents(runs.at(-1)?.id ?? "")).slice(-12).map(({ kind }) => kind);
      throw new Error(`${error}: ${activity}, ${seen()}, the last one: ${told.join(" ")}`);
    });
    assert.deepEqual(
      runs.map(({ status, output }) => [status, output]),
      runs.map(({ id }) => ["succeeded", { turns: turnsOfRun, run: id }]),
    );
    assert.equal(runs.length, turns / turnsOfRun);
    const closed = await handle.close({ reason: "said everything" });
    assert.equal(closed.status, "closed");
    for await (const { sequence } of handle.output("answers").subscribe({ cursor: turns - 1 }))
      assert.equal(sequence, turns, "a stream of a closed session ends");
  });
});
