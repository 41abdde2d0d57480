// Kills the server, the worker or both without warning, again and again, while runs are going.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { patience } from "./lib/engine.ts";
import { client, dataDir, deployed, projects, runEvents, url } from "./lib/helmr.ts";
import { server, worker } from "./lib/halves.ts";
import { leftovers } from "./lib/host.ts";
import { ready } from "./lib/own.ts";
import { Part } from "./lib/part.ts";

const rounds = Number(process.env.KILL_ROUNDS ?? 8);
const runsPerRound = 3;
const longestLifeMs = 3000;

/** Tried until it is acknowledged; the key makes one run of all tries. */
async function start(deploymentId: string, idempotencyKey: string, ms: number): Promise<string> {
  for (;;) {
    try {
      const options = { deploymentId, idempotencyKey };
      return (await client.tasks.trigger("naps", { ms }, options)).id;
    } catch {
      await ready(url);
    }
  }
}

const victims: Part[][] = [[worker], [server], [server, worker]];
const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;

let deployment = "";

before(async () => {
  server.start();
  await ready(url);
  worker.start();
  deployment = await deployed(`${projects}tasks`);
});

after(async () => {
  await worker.end("SIGTERM");
  await server.end("SIGTERM");
});

const ids: string[] = [];

test(`${rounds} kills at random moments lose no run and finish none twice`, async () => {
  for (let round = 0; round < rounds; round++) {
    const starts = Array.from({ length: runsPerRound }, (_, at) =>
      start(deployment, `kill-${process.pid}-${round}-${at}`, Math.random() * 1500),
    );
    await sleep(Math.random() * longestLifeMs);
    const killed = pick(victims);
    await Promise.all(killed.map((part) => part.end("SIGKILL")));
    killed.forEach((part) => part.start());
    ids.push(...(await Promise.all(starts)));
  }
  assert.equal(new Set(ids).size, rounds * runsPerRound);
  await ready(url);
  for (const id of ids) {
    const ended = await client.runs.wait(id, { timeoutMs: patience(240_000) });
    assert.equal(ended.status, "succeeded", `${id}: ${JSON.stringify(ended.error)}`);
  }
});

const isTerminal = /^run\.(completed|failed|cancelled|expired|dead_lettered)$/;

test("every run that was killed under has one terminal event and one result", async () => {
  for (const id of ids) {
    const events = await runEvents(id);
    assert.equal(events.filter(({ kind }) => isTerminal.test(kind)).length, 1);
    assert.match(events.at(-1)?.kind ?? "", isTerminal);
    const leases = events.filter(({ kind }) => kind === "run.lease_started");
    const { output } = await client.runs.retrieve(id);
    assert.equal((output as { lease: string }).lease, leases.at(-1)?.attributes.lease_id);
  }
});

test("after all the kills a stop is clean and leaves nothing", async () => {
  assert.equal(await worker.end("SIGTERM"), 0);
  assert.equal(await server.end("SIGTERM"), 0);
  assert.deepEqual(leftovers(dataDir), []);
});
