// A run that waits: from the wait to a free slot, from the answer to the task's next line, and what
// a parked run costs. Beside it the same engine by hand, with a Node that does nothing else.
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { note, sleep } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import { checkpointNode, Network, restoreNode, runNode, type Runsc, runsc } from "../runsc.ts";
import { awaitRun, createRun, getRun, type RunEvent, type Stack, startUp, url } from "../stack.ts";

const rounds = 20;
const parkedBefore = 240; // the database's caches are full, and pools have their size
const parkedRuns = 160;
const atATime = 4;

interface Parked {
  id: string;
  tokenId: string;
  parkMs: number;
  storedBytes: number;
}

async function ask<T>(stack: Stack, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${url(stack)}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${stack.key}`, "content-type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

const timeOf = (event: RunEvent | undefined) => Date.parse(event?.at ?? "");

async function events(stack: Stack, id: string): Promise<RunEvent[]> {
  return (await ask<{ events: RunEvent[] }>(stack, `/api/runs/${id}/events?limit=200`)).events;
}

export async function park(stack: Stack): Promise<Parked> {
  const { id } = await createRun(stack, "wait");
  for (;;) {
    const list = await events(stack, id);
    const ready = list.find((event) => event.kind === "checkpoint.ready");
    const ended = list.find((event) => event.kind === "run.failed");
    if (ended) throw new Error(`the run failed: ${JSON.stringify(ended.attributes)}`);
    if (ready) {
      const opened = list.find((event) => event.kind === "run_wait.created");
      return {
        id,
        tokenId: String(opened?.attributes["token_id"]),
        parkMs: timeOf(ready) - timeOf(list.find((event) => event.kind === "run.waiting")),
        storedBytes: Number(ready.attributes["stored_bytes"]),
      };
    }
    await sleep(20);
  }
}

/** From the answer, as the server accepted it, to the statement after the wait. */
export async function resume(stack: Stack, parked: Parked): Promise<number> {
  await ask(stack, `/api/tokens/${parked.tokenId}/complete`, { data: { approved: true } });
  const list = await awaitRun(stack, parked.id);
  const { output } = await getRun(stack, parked.id);
  const settled = list.find((event) => event.kind === "run_wait.completed");
  if (!output) throw new Error("the run ended without an output");
  return (output as { at: number }).at - timeOf(settled);
}

/** A Node that has loaded what every task has loaded, and waits. */
const idle = `
  for (const name of ["stream", "fs/promises", "http", "https", "crypto", "util"]) require(name);
  import("/tmp/index.js").then(() => {
    console.log(0);
    setInterval(() => console.log(Date.now()), 1);
  });`;

/** Save and go on, by hand: milliseconds of each. */
async function rawOnce(raw: Runsc, folder: string, network?: Network): Promise<[number, number]> {
  await network?.renew();
  const child = runNode(raw, idle, network);
  await once(child.process.stdout ?? child.process, "data");
  const image = mkdtempSync(join(folder, "image-"));
  const saving = Date.now();
  await checkpointNode(raw, child, image);
  const saved = Date.now() - saving;
  await once(child.process, "close");
  await network?.renew();
  const restoring = Date.now();
  const again = restoreNode(raw, child, image);
  const [first] = (await once(again.process.stdout ?? again.process, "data")) as [Buffer];
  const restored = Number(first.toString().split("\n")[0]) - restoring;
  again.process.kill("SIGKILL");
  await once(again.process, "close");
  rmSync(image, { recursive: true });
  return [saved, restored];
}

type Anchors = Record<string, number[]>;

/** The figure against each anchor, or alone where there is none. */
function report(name: string, ours: number, anchors: Anchors, part = 0.5): void {
  const measured = Object.entries(anchors).filter(([, raw]) => raw.length > 0);
  if (measured.length === 0) figure(name, ours, "ms");
  for (const [anchor, raw] of measured)
    figure(name, ours, "ms", { name: anchor, value: quantile(raw, part) });
}

export async function parkAndResume(stack: Stack): Promise<void> {
  await startUp(stack, { HELMR_WAIT_HOT_TIME: "0s" });
  const raw = await runsc();
  const folder = mkdtempSync("/dev/shm/helmr-bench-");
  const times = { park: [] as number[], resume: [] as number[], bytes: [] as number[] };
  const saves: Anchors = { runsc_checkpoint: [], runsc_checkpoint_alone: [] };
  const restores: Anchors = { runsc_restore: [], runsc_restore_alone: [] };
  const network = new Network();
  try {
    for (let i = 0; i <= rounds; i++) {
      const parked = await park(stack);
      await sleep(200);
      const back = await resume(stack, parked);
      const connected = raw && (await rawOnce(raw, folder, network));
      const alone = raw && (await rawOnce(raw, folder));
      if (i === 0) continue; // the first of each warms what there is to warm
      times.park.push(parked.parkMs);
      times.resume.push(back);
      times.bytes.push(parked.storedBytes);
      if (!connected || !alone) continue;
      saves["runsc_checkpoint"]?.push(connected[0]);
      saves["runsc_checkpoint_alone"]?.push(alone[0]);
      restores["runsc_restore"]?.push(connected[1]);
      restores["runsc_restore_alone"]?.push(alone[1]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  report("park", median(times.park), saves);
  report("resume_p50", median(times.resume), restores);
  report("resume_p99", quantile(times.resume, 0.99), restores, 0.99);
  figure("parked_bytes", median(times.bytes), "bytes");
}

/** Resident memory of the server below `helmr up`, in bytes. */
function serverMemory(stack: Stack): number {
  const parent = stack.child?.pid;
  for (const pid of readdirSync("/proc")) {
    const status = `/proc/${pid}/status`;
    if (!/^\d+$/.test(pid) || !existsSync(status)) continue;
    const about = readFileSync(status, "utf8");
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0")[1];
    if (!about.includes(`PPid:\t${parent}\n`) || command !== "server") continue;
    return Number(/VmRSS:\s+(\d+) kB/.exec(about)?.[1]) * 1024;
  }
  throw new Error("no server below helmr up");
}

async function parkMany(stack: Stack, n: number): Promise<void> {
  for (let i = 0; i < n; i += atATime)
    await Promise.all(Array.from({ length: atATime }, () => park(stack)));
}

/** What the server keeps in memory for a run that is parked: as good as nothing. */
export async function parkedMemory(stack: Stack): Promise<void> {
  await startUp(stack, { HELMR_WAIT_HOT_TIME: "0s" });
  await parkMany(stack, parkedBefore);
  const before = serverMemory(stack);
  await parkMany(stack, parkedRuns);
  const grown = serverMemory(stack) - before;
  note(`the server's memory grew by ${grown} bytes with ${parkedRuns} parked runs`);
  figure("parked_rss", Math.max(0, grown) / parkedRuns, "bytes");
}
