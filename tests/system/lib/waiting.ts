// Runs that wait, as a test sees them come to a stop and go on.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { RunSnapshot, Wait } from "@helmr/sdk";
import { patience } from "./engine.ts";
import type { EventRecord } from "./installation.ts";
import { ready, until } from "./own.ts";
import type { Own } from "./own.ts";

/** The n-th event of a kind, once it is there. */
export async function happened(own: Own, id: string, kind: string, n = 1): Promise<EventRecord> {
  let found: EventRecord | undefined;
  await until(`${kind} of ${id}`, async () => {
    const events = await own.runEvents(id);
    found = events.filter((event) => event.kind === kind)[n - 1];
    const kinds = (): string => events.map((event) => event.kind).join(" ");
    assert.ok(found ?? !isOver(events), `${id} ended before ${kind}: ${kinds()}`);
    return found;
  });
  return found as EventRecord;
}

const terminal = /^run\.(completed|failed|cancelled|expired|dead_lettered)$/;

export const isOver = (events: readonly EventRecord[]): boolean =>
  events.some(({ kind }) => terminal.test(kind));

export const countOf = (events: readonly EventRecord[], kind: string): number =>
  events.filter((event) => event.kind === kind).length;

/** Starts a task; gives its run's id. */
export async function start(
  own: Own,
  deploymentId: string,
  task: string,
  payload?: unknown,
  options: object = {},
): Promise<string> {
  return (await own.client.tasks.trigger(task, payload, { deploymentId, ...options })).id;
}

/** What the run waits for, once it does; `after` is a wait that is not meant any more. */
export async function waiting(own: Own, id: string, after?: string): Promise<Wait> {
  let wait: Wait | null = null;
  await until(`a wait of ${id}`, async () => {
    const run = await own.client.runs.retrieve(id);
    assert.ok(!run.isTerminal, `${id} is ${run.status}: ${JSON.stringify(run.error)}`);
    wait = run.pendingWait;
    return wait !== null && wait.id !== after && wait.condition === "pending";
  });
  return wait as unknown as Wait;
}

/** What the run waits for, once nothing of it is left on a worker. */
export async function parked(own: Own, id: string, after?: string): Promise<Wait> {
  const { id: waitId } = await waiting(own, id, after);
  let wait: Wait | null = null;
  const isParked = async (): Promise<boolean> => {
    const run = await own.client.runs.retrieve(id);
    assert.ok(!run.isTerminal, `${id} is ${run.status}: ${JSON.stringify(run.error)}`);
    wait = run.pendingWait;
    return wait?.id === waitId && wait.suspension === "parked";
  };
  await until(`${id} is parked`, isParked).catch(async (error: unknown) => {
    const kinds = (await own.runEvents(id)).map(({ kind }) => kind).join(" ");
    throw new Error(`${error}: ${kinds}\n${own.log.slice(-4000)}`);
  });
  return wait as unknown as Wait;
}

/* Instances that a worker makes for itself: networks in advance, and what becomes a template. */
const spares = (own: Own): string[] =>
  own.workers.flatMap(({ workDir }) => {
    const folder = `${workDir}/instances`;
    if (!existsSync(folder)) return [];
    return readdirSync(folder).filter((id) => {
      const owner = `${folder}/${id}/owner`;
      return existsSync(owner) && /\b(pool|template)\b/.test(readFileSync(owner, "utf8"));
    });
  });

/* What a worker has for itself: the process that watches over it, and its spare instances. The
 * processes of a sandbox name it in full, or by the end of its id. */
function isSpare(own: Own, found: string): boolean {
  if (/^process: .* guard (groups helmr|folder) /.test(found)) return true;
  return spares(own).some((id) => found.includes(id) || found.includes(id.slice(-12)));
}

/** Processes and folders of sandboxes that are there now. */
export const sandboxes = (own: Own): string[] =>
  own
    .leftovers()
    .filter((found) => /^(process|instance): /.test(found) && !isSpare(own, found));

/** Once no sandbox is there: a worker ends them a moment after a run did. */
export const noSandbox = (own: Own): Promise<void> =>
  until("no sandbox", () => sandboxes(own).length === 0);

/** The run's snapshot once it is over; it must succeed. */
export async function succeeded(own: Own, id: string): Promise<RunSnapshot & { output: any }> {
  const run = await own.client.runs.wait(id, { timeoutMs: patience(240_000) });
  assert.equal(run.status, "succeeded", `${JSON.stringify(run.error)}\n${own.log.slice(-4000)}`);
  return run as RunSnapshot & { output: any };
}

/** Answers whatever the run waits for, as often as it asks, until it is over. */
export async function driven(own: Own, id: string, answer: unknown): Promise<RunSnapshot> {
  let run: RunSnapshot | undefined;
  await until(`the end of ${id}`, async () => {
    try {
      run = await own.client.runs.retrieve(id);
      const { pendingWait, isTerminal } = run;
      if (pendingWait?.condition === "pending" && pendingWait.tokenId !== undefined)
        await own.client.tokens.complete(pendingWait.tokenId, answer);
      return isTerminal;
    } catch {
      return false; // The server is between two lives, or the wait was given up meanwhile.
    }
  });
  return run as RunSnapshot;
}

/** Restarts everything: what is not on a disk is gone. */
export async function restart(own: Own): Promise<void> {
  await own.stop();
  own.server.start();
  await ready(own.place.url);
  own.workers.forEach((worker) => worker.start());
  await own.active();
}
