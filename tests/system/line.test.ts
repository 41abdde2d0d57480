// What is said between a worker and its server gets lost or is refused at the worst moment: a park
// is not undone for it, and a result is not lost.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import { Between } from "./lib/between.ts";
import { projects } from "./lib/helmr.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { countOf, noSandbox, parked, start, succeeded } from "./lib/waiting.ts";

const outage = 4; // Requests that are lost.

const isUpload = (method: string, path: string): boolean =>
  method === "PUT" && path.startsWith("/api/worker/objects/");

suite("a line with somebody between", () => {
  const scope = declaredScope();
  const between = new Between();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" }, between });
    deployment = await own.deployed(`${projects}waits`);
  });

  const cycles = (): Promise<string> => start(own, deployment, "cycles", { times: 1, bytes: 4096 });

  test("the uploads of a park wait for a server that is away", async () => {
    let tries = 0;
    between.decide = (method, path) =>
      isUpload(method, path) && ++tries <= outage ? "is lost" : "passes";
    const id = await cycles();
    const wait = await parked(own, id);
    assert.ok(tries > outage, `${tries}`);
    const events = await own.runEvents(id);
    assert.equal(countOf(events, "checkpoint.started"), 1);
    assert.equal(countOf(events, "run.wait_checkpoint_failed"), 0);
    await own.client.tokens.complete(wait.id, "one");
    const { output } = await succeeded(own, id);
    assert.equal(output.hash, output.filed);
  });

  test("a result whose files were collected stores them anew, once", async () => {
    const id = await cycles();
    const wait = await parked(own, id);
    const said: string[] = [];
    between.decide = (method, path) => {
      const isResult = path.endsWith("/complete");
      if (isResult) said.push("result");
      else if (isUpload(method, path)) said.push("file");
      const isFirst = isResult && !said.slice(0, -1).includes("result");
      return isFirst ? { status: 409, code: "object_gone" } : "passes";
    };
    await own.client.tokens.complete(wait.id, "one");
    const { output } = await succeeded(own, id);
    assert.equal(output.hash, output.filed);
    const once = said.slice(0, said.length / 2);
    assert.deepEqual(said, [...once, ...once]);
    assert.deepEqual([once[0], once.at(-1)], ["file", "result"]);
    assert.equal(await own.printed(["diff", id]), "A hash.txt\n");
    assert.equal(countOf(await own.runEvents(id), "run.lease_started"), 2);
  });

  test("nothing is left", async () => {
    await noSandbox(own);
    await own.stopClean();
  });
});
