// Server and worker are killed at every step of park and resume, and the store is damaged: a run
// ends once, with the right result, or says why it cannot.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import type { RunSnapshot } from "@helmr/sdk";
import { patience } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { Part } from "./lib/part.ts";
import { declaredScope } from "./lib/scope.ts";
import { checkpointFiles, damage, isPack } from "./lib/sealed.ts";
import { driven, happened, noSandbox, parked, start, succeeded } from "./lib/waiting.ts";

type Moment = (own: Own, id: string) => Promise<unknown>;

const answered: Moment = async (own, id) => {
  const wait = await parked(own, id);
  await own.client.tokens.complete(wait.id, { approved: true });
};

const after =
  (kind: string): Moment =>
  (own, id) =>
    happened(own, id, kind);

const afterAnswer =
  (kind: string, n: number): Moment =>
  async (own, id) => {
    await answered(own, id);
    await happened(own, id, kind, n);
  };

/* Those at which a worker waits for the server are for both also in the short run. */
const moments: [string, Moment, "both"?][] = [
  ["the wait is opened", after("run.waiting")],
  ["the checkpoint begins", after("checkpoint.started"), "both"],
  ["it is parked", after("checkpoint.ready")],
  ["it is answered", answered],
  ["the resume is given to a worker", afterAnswer("run.lease_assigned", 2), "both"],
  ["the sandbox is back", afterAnswer("run.lease_started", 2)],
  ["the program has its answer", afterAnswer("run.resumed", 1)],
];

const isLong = process.env.SYSTEM_LONG !== undefined;
const isTerminal = /^run\.(completed|failed|cancelled|expired|dead_lettered)$/;

suite("crashes", () => {
  const scope = declaredScope();
  let own: Own;
  let deployment = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s", HELMR_LEASE_TTL: "10s" } });
    deployment = await own.deployed(`${projects}waits`);
  });

  async function endedWell(id: string, run: RunSnapshot): Promise<void> {
    const said = `${id}: ${JSON.stringify(run.error)}\n${own.log.slice(-4000)}`;
    assert.equal(run.status, "succeeded", said);
    const { answer, count, content, heard } = run.output as Record<string, any>;
    assert.deepEqual(
      [answer, count, content, heard],
      [{ approved: true }, 2, "Ada before and after", "heard Ada\n"],
    );
    const events = await own.runEvents(id);
    assert.equal(events.filter(({ kind }) => isTerminal.test(kind)).length, 1);
    assert.match(events.at(-1)?.kind ?? "", isTerminal);
  }

  const victims: [string, () => Part[]][] = [
    ["the worker", () => [...own.workers]],
    ["the server", () => [own.server]],
    ["everything", () => [own.server, ...own.workers]],
  ];

  for (const [what, moment, who] of moments)
    for (const [name, parts] of victims.slice(0, isLong ? 3 : who === "both" ? 2 : 1))
      test(`${name} is killed when ${what}`, async () => {
        const id = await start(own, deployment, "approve", { name: "Ada", afterMs: 1000 });
        await moment(own, id);
        await Promise.all(parts().map((part) => part.end("SIGKILL")));
        for (const part of parts()) {
          part.start();
          if (part === own.server) await ready(own.place.url);
        }
        await endedWell(id, await driven(own, id, { approved: true }));
      });

  const damages: [string, (content: Buffer, other: Buffer) => Buffer][] = [
    ["changed by a bit", (content) => {
      const middle = content.length >> 1;
      content[middle] = (content[middle] as number) ^ 1;
      return content;
    }],
    ["cut short", (content) => content.subarray(0, content.length - 1)],
    ["longer than it was", (content) => Buffer.concat([content, Buffer.alloc(1)])],
    ["another run's", (_content, other) => other],
  ];

  const files = (): Set<string> => new Set(checkpointFiles(own.place.dataDir));
  const added = (earlier: Set<string>): string[] => [...files()].filter((path) => !earlier.has(path));
  const biggest = (paths: string[]): string =>
    paths.reduce((a, b) => (readFileSync(a).length >= readFileSync(b).length ? a : b));

  /* A parked run and the files that are its alone. */
  async function parkedFiles(): Promise<{ id: string; waitId: string; paths: string[] }> {
    const earlier = files();
    const id = await start(own, deployment, "approve", { name: "Ada" });
    const { id: waitId } = await parked(own, id);
    return { id, waitId, paths: added(earlier) };
  }

  async function failsToResume(id: string, waitId: string): Promise<void> {
    await own.client.tokens.complete(waitId, { approved: true });
    const { status, error } = await own.client.runs.wait(id, { timeoutMs: patience(120_000) });
    assert.deepEqual(
      [status, error?.layer, error?.failureKind],
      ["failed", "parked_wait", "wait_resume_failed"],
    );
  }

  for (const [what, how] of isLong ? damages : damages.slice(0, 2))
    for (const [kind, pick] of [
      ["pack", (paths: string[]) => biggest(paths.filter(isPack))],
      ["manifest", (paths: string[]) => biggest(paths.filter((path) => !isPack(path)))],
    ] as const)
      test(`a ${kind} that is ${what} is not believed`, async () => {
        const [run, other] = [await parkedFiles(), await parkedFiles()];
        const content = readFileSync(pick(other.paths));
        damage(pick(run.paths), (whole) => how(whole, content));
        await failsToResume(run.id, run.waitId);
        await own.client.tokens.complete(other.waitId, { approved: true });
        await succeeded(own, other.id);
      });

  test("a file that is gone is missed", async () => {
    const { id, waitId, paths } = await parkedFiles();
    rmSync(biggest(paths.filter(isPack)));
    await failsToResume(id, waitId);
  });

  test("nothing is left", async () => {
    await until("active workers", () => own.workers.every((worker) => worker.isRunning));
    await noSandbox(own);
    await own.stopClean();
  });
});

suite("a store that is full", () => {
  const scope = declaredScope();
  const folder = mkdtempSync(`${tmpdir()}/helmr-full-`);
  const filler = `${folder}/filler`;
  let own: Own;
  let deployment = "";

  before(async () => {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1g", "tmpfs", folder]);
    scope.after(() => {
      execFileSync("umount", [folder]);
      rmSync(folder, { recursive: true });
    });
    const env = { HELMR_WAIT_HOT_TIME: "0s", HELMR_CAS_URI: `file:${folder}/store` };
    own = await startOwn(scope, { env });
    deployment = await own.deployed(`${projects}waits`);
  });

  /* Leaves room for what a request needs, and not for a checkpoint. */
  function fill(): void {
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(filler, Buffer.alloc(bavail * bsize - 256 * 1024));
  }

  test("a run that cannot be parked goes on waiting, and is parked when there is room", async () => {
    fill();
    const id = await start(own, deployment, "approve", { name: "Ada" });
    await happened(own, id, "run.wait_checkpoint_failed");
    assert.ok((await own.client.runs.retrieve(id)).isWaiting);
    rmSync(filler);
    const wait = await parked(own, id);
    await own.client.tokens.complete(wait.id, { approved: true });
    const { output } = await succeeded(own, id);
    assert.deepEqual([output.count, output.content], [2, "Ada before and after"]);
  });

  test("a run that cannot be parked is answered where it is", async () => {
    fill();
    const id = await start(own, deployment, "approve", { name: "Ada" });
    await happened(own, id, "run.wait_checkpoint_failed");
    const { pendingWait } = await own.client.runs.retrieve(id);
    await own.client.tokens.complete(pendingWait?.id as string, { approved: true });
    const { output } = await succeeded(own, id);
    assert.deepEqual([output.count, output.content], [2, "Ada before and after"]);
    assert.equal(output.heard, "heard Ada\n");
    rmSync(filler);
  });

  test("nothing is left", () => own.stopClean());
});
