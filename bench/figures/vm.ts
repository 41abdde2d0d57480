// Machines without KVM: starts as copies of a template, parks, resumes, and what a copy costs.
import { note, proportionalBytes, running, sleep, until } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import { program, rawMachine, restoreMachine, sleepingMemory } from "../qemu.ts";
import { awaitRun, createRun, type Stack, startUp } from "../stack.ts";
import { park, resume } from "./park.ts";
import { docker, dockerOnce, startAt } from "./run_start.ts";

const rounds = 20;
const copies = 20;
const settings = { HELMR_ENGINE: "qemu", HELMR_WAIT_HOT_TIME: "0s" };

/** Once runs of the task start as copies at this level: the first boots, and templates are made
 * beside it, at first one without the task's module. */
async function warm(stack: Stack, task: string, level: "a" | "b"): Promise<void> {
  await until(
    `a template for ${task} at level ${level}`,
    async () => {
      const { id } = await createRun(stack, task);
      const list = await awaitRun(stack, id);
      const started = list.find((event) => event.kind === "run.lease_started");
      await sleep(1000);
      return started?.attributes["level"] === level;
    },
    600_000,
  );
}

/** One at the level that is meant; while the next copy is made nothing is measured. */
async function startOf(stack: Stack, task: string, level: "a" | "b"): Promise<number> {
  for (;;) {
    const ms = await startAt(stack, task, level);
    await sleep(800);
    if (ms !== undefined) return ms;
    note(`vm_start: a start of ${task} was not at level ${level}`);
  }
}

/** vm_start_a: Node waits with the adapter; vm_start_b: the task's module is loaded, too. */
export async function vmStart(stack: Stack): Promise<void> {
  await startUp(stack, settings);
  const hasDocker = await docker();
  const raw = await rawMachine(stack.build);
  const times: Record<string, number[]> = { a: [], b: [], docker_run: [], qemu_restore: [] };
  await warm(stack, "now", "b");
  await warm(stack, "now-impure", "a");
  for (let i = 0; i <= rounds; i++) {
    times["b"]?.push(await startOf(stack, "now", "b"));
    times["a"]?.push(await startOf(stack, "now-impure", "a"));
    if (hasDocker) times["docker_run"]?.push(await dockerOnce());
    if (raw) times["qemu_restore"]?.push(await restoreMachine(raw));
  }
  const names = { vm_start: "b", vm_start_a: "a", vm_start_b: "b" };
  for (const [name, level] of Object.entries(names))
    for (const [suffix, part] of [["p50", 0.5], ["p99", 0.99]] as const) {
      const value = quantile(times[level]?.slice(1) ?? [], part);
      for (const anchor of ["docker_run", "qemu_restore"]) {
        const list = times[anchor]?.slice(1) ?? [];
        const reference = { name: anchor, value: quantile(list, part) };
        figure(`${name}_${suffix}`, value, "ms", list.length ? reference : undefined);
      }
    }
}

export async function vmPark(stack: Stack): Promise<void> {
  await startUp(stack, settings);
  await warm(stack, "now", "b");
  const raw = await rawMachine(stack.build);
  const times = { park: [] as number[], resume: [] as number[], bytes: [] as number[], raw: [] as number[] };
  for (let i = 0; i <= rounds / 2; i++) {
    const parked = await park(stack);
    await sleep(500);
    const back = await resume(stack, parked);
    const restored = raw ? await restoreMachine(raw) : 0;
    if (i === 0) continue; // the first boots, and stores the template
    times.park.push(parked.parkMs);
    times.resume.push(back);
    times.bytes.push(parked.storedBytes);
    if (raw) times.raw.push(restored);
  }
  const anchor = raw ? { name: "qemu_restore", value: median(times.raw) } : undefined;
  figure("vm_park", median(times.park), "ms", anchor);
  figure("vm_resume_p50", median(times.resume), "ms", anchor);
  figure("vm_resume_p99", quantile(times.resume, 0.99), "ms", anchor);
  figure("vm_parked_bytes", median(times.bytes), "bytes");
}

const memory = (stack: Stack) => running(stack.child?.pid ?? 0, program).map(proportionalBytes);

/** Of copies that stand by one is awake for the next run, and the others sleep. */
export async function vmClonePss(stack: Stack): Promise<void> {
  const raw = await rawMachine(stack.build);
  const bare = raw ? await sleepingMemory(raw, copies) : [];
  const anchor = raw ? { name: "qemu_asleep", value: median(bare) / 1e6 } : undefined;
  await startUp(stack, { ...settings, HELMR_WORKER_STANDBYS: String(copies) });
  await warm(stack, "now", "b");
  // Each run that begins wishes for one more: as many as run at a time.
  const begun = Array.from({ length: 2 * copies }, () => createRun(stack, "now"));
  for (const one of begun) await awaitRun(stack, (await one).id);
  await until("copies that stand by", () => memory(stack).length === copies, 600_000);
  await sleep(5000); // idle
  const each = memory(stack).map((bytes) => bytes / 1e6);
  const mean = each.reduce((sum, one) => sum + one, 0) / each.length;
  note(`vm_clone_pss: ${each.length} copies, MB each: ${each.map((one) => one.toFixed(1)).join(" ")}`);
  figure("vm_clone_pss", mean, "MB", anchor);
  figure("vm_clone_pss_asleep", median(each), "MB", anchor);
  figure("vm_clone_pss_awake", Math.max(...each), "MB");
}
