// From "the run is accepted" to the first statement of the task, and the same Node without us.
// The three take turns, so that whatever else the machine does hits all of them.
import { once } from "node:events";
import { dockerNode, startDocker } from "../docker.ts";
import { note, sleep } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import { runNode, type Runsc, runsc } from "../runsc.ts";
import { awaitRun, createRun, getRun, type RunEvent, type Stack, startUp } from "../stack.ts";

const program = "console.log(Date.now())";

export type Phases = Map<string, number[]>;

/** The steps the worker reports, by name. */
function addPhases(events: RunEvent[], phases: Phases): void {
  for (const event of events) {
    if (event.kind !== "run.prepare") continue;
    const { step, ms } = event.attributes as { step: string; ms: number };
    phases.set(step, [...(phases.get(step) ?? []), ms]);
  }
}

/** Undefined for a start at another level than the one that is meant. */
export async function startAt(
  stack: Stack,
  task: string,
  level: string | undefined,
  phases: Phases = new Map(),
): Promise<number | undefined> {
  const run = await createRun(stack, task);
  const accepted = Date.now();
  const events = await awaitRun(stack, run.id);
  addPhases(events, phases);
  const ended = await getRun(stack, run.id);
  const output = ended.output as { at: number } | null;
  if (!output) throw new Error(`the run ended without an output: ${JSON.stringify(ended)}`);
  // The sandbox is taken down after the run's end; a start is measured on a quiet machine.
  await sleep(200);
  const started = events.find((event) => event.kind === "run.lease_started");
  return level === undefined || started?.attributes["level"] === level ? output.at - accepted : undefined;
}

export async function startOnce(stack: Stack, phases: Phases, task = "now"): Promise<number> {
  return (await startAt(stack, task, undefined, phases)) as number;
}

export async function rawOnce(raw: Runsc): Promise<number> {
  const begun = Date.now();
  const child = runNode(raw, program).process;
  let out = "";
  child.stdout?.on("data", (bytes: Buffer) => (out += bytes.toString()));
  await once(child, "close");
  if (child.exitCode !== 0) throw new Error("runsc failed");
  return Number(out) - begun;
}

export async function dockerOnce(): Promise<number> {
  const begun = Date.now();
  return Number(await dockerNode(program)) - begun;
}

interface Anchors {
  raw: Runsc | undefined;
  docker: boolean;
}

let anchors: Promise<Anchors> | undefined;

async function prepareAnchors(): Promise<Anchors> {
  const raw = await runsc();
  if (!raw) note("skipped: runsc_run, runsc is not installed");
  return { raw, docker: raw !== undefined && (await startDocker(raw.rootfs)) };
}

/** Whether `docker run` can be measured beside. */
export const docker = async (): Promise<boolean> => (await (anchors ??= prepareAnchors())).docker;

/** Rounds of each in turn; the first of each only warms what there is to warm. */
async function measure(stack: Stack, name: string, rounds: number): Promise<void> {
  const { raw, docker } = await (anchors ??= prepareAnchors());
  const phases: Phases = new Map();
  const times: Record<string, number[]> = { ours: [], runsc_run: [], docker_run: [] };
  for (let i = 0; i <= rounds; i++) {
    if (i === 1) phases.clear();
    times["ours"]?.push(await startOnce(stack, phases));
    if (raw) times["runsc_run"]?.push(await rawOnce(raw));
    if (docker) times["docker_run"]?.push(await dockerOnce());
  }
  const { ours = [], ...rest } = times;
  const used = Object.entries(rest).filter(([, list]) => list.length > 0);
  for (const [suffix, part] of [["p50", 0.5], ["p99", 0.99]] as const) {
    const value = quantile(ours.slice(1), part);
    if (used.length === 0) figure(`${name}_${suffix}`, value, "ms");
    for (const [anchor, list] of used) {
      const reference = { name: anchor, value: quantile(list.slice(1), part) };
      figure(`${name}_${suffix}`, value, "ms", reference);
    }
  }
  for (const [step, list] of phases) note(`${name}: ${step} takes ${median(list)} ms`);
}

export async function runStart(stack: Stack): Promise<void> {
  await startUp(stack);
  await measure(stack, "run_start", 30);
}

/** The same with no sandbox made ahead: what the first run of an image waits for. */
export async function runStartCold(stack: Stack): Promise<void> {
  await startUp(stack, { HELMR_WORKER_STANDBYS: "0" });
  await measure(stack, "run_start_cold", 10);
}
