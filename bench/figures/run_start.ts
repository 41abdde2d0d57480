// From "the run is accepted" to the first statement of the task, and the same Node without us.
// The three take turns, so that whatever else the machine does hits all of them.
import { once } from "node:events";
import { dockerNode, startDocker } from "../docker.ts";
import { note, sleep } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import { runNode, runsc } from "../runsc.ts";
import { awaitRun, createRun, getRun, type RunEvent, type Stack, startUp } from "../stack.ts";

const rounds = 30;
const program = "console.log(Date.now())";

type Phases = Map<string, number[]>;

/** The steps the worker reports, by name. */
function addPhases(events: RunEvent[], phases: Phases): void {
  for (const event of events) {
    const { step, duration_ms } = event.attributes;
    if (typeof step !== "string" || typeof duration_ms !== "number") continue;
    phases.set(step, [...(phases.get(step) ?? []), duration_ms]);
  }
}

async function startOnce(stack: Stack, phases: Phases): Promise<number> {
  const run = await createRun(stack, "now");
  const accepted = Date.now();
  addPhases(await awaitRun(stack, run.id), phases);
  const ended = await getRun(stack, run.id);
  const output = ended.output as { at: number } | null;
  if (!output) throw new Error(`the run ended without an output: ${JSON.stringify(ended)}`);
  // The sandbox is taken down after the run's end; a start is measured on a quiet machine.
  await sleep(200);
  return output.at - accepted;
}

export async function rawOnce(raw: NonNullable<Awaited<ReturnType<typeof runsc>>>): Promise<number> {
  const begun = Date.now();
  const child = runNode(raw, program);
  let out = "";
  child.stdout?.on("data", (bytes: Buffer) => (out += bytes.toString()));
  await once(child, "close");
  if (child.exitCode !== 0) throw new Error("runsc failed");
  return Number(out) - begun;
}

async function dockerOnce(): Promise<number> {
  const begun = Date.now();
  return Number(await dockerNode(program)) - begun;
}

function print(ours: number[], anchors: [name: string, times: number[]][]): void {
  for (const [suffix, part] of [["p50", 0.5], ["p99", 0.99]] as const)
    for (const [name, times] of anchors.length ? anchors : [["", []] as [string, number[]]]) {
      const anchor = times.length ? { name, value: quantile(times, part) } : undefined;
      figure(`run_start_${suffix}`, quantile(ours, part), "ms", anchor);
    }
}

export async function runStart(stack: Stack): Promise<void> {
  await startUp(stack);
  const raw = await runsc();
  if (!raw) note("skipped: runsc_run, runsc is not installed");
  const docker = raw !== undefined && (await startDocker(raw.rootfs));
  const phases: Phases = new Map();
  const ours: number[] = [];
  const runscTimes: number[] = [];
  const dockerTimes: number[] = [];
  await startOnce(stack, new Map());
  if (raw) await rawOnce(raw);
  if (docker) await dockerOnce();
  for (let i = 0; i < rounds; i++) {
    ours.push(await startOnce(stack, phases));
    if (raw) runscTimes.push(await rawOnce(raw));
    if (docker) dockerTimes.push(await dockerOnce());
  }
  const anchors: [string, number[]][] = [];
  if (raw) anchors.push(["runsc_run", runscTimes]);
  if (docker) anchors.push(["docker_run", dockerTimes]);
  print(ours, anchors);
  for (const [step, times] of phases) note(`run_start: ${step} takes ${median(times)} ms`);
}
