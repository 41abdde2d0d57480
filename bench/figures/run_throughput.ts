// Many short runs at once through a few slots, and as many raw containers by as many hands.
import { note } from "../host.ts";
import { figure } from "../report.ts";
import { type Runsc, runsc } from "../runsc.ts";
import { awaitRun, createRun, slots, type Stack, startUp } from "../stack.ts";
import { rawOnce } from "./run_start.ts";

const count = 60;

async function ours(stack: Stack): Promise<number> {
  const begun = Date.now();
  const runs = await Promise.all(Array.from({ length: count }, () => createRun(stack, "now")));
  await Promise.all(runs.map((run) => awaitRun(stack, run.id)));
  return (count * 1000) / (Date.now() - begun);
}

async function theirs(raw: Runsc): Promise<number> {
  const begun = Date.now();
  let left = count;
  const hand = async () => {
    while (left-- > 0) await rawOnce(raw);
  };
  await Promise.all(Array.from({ length: slots }, hand));
  return (count * 1000) / (Date.now() - begun);
}

export async function runThroughput(stack: Stack): Promise<void> {
  await startUp(stack);
  const raw = await runsc();
  if (!raw) note("skipped: runsc_run_at_4, runsc is not installed");
  const value = await ours(stack);
  const anchor = raw && { name: "runsc_run_at_4", value: await theirs(raw) };
  figure("run_throughput", value, "runs/s", anchor);
}
