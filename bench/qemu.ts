// A raw QEMU guest on the kernel the product boots and of the shape its machines have: booted once
// by hand, saved in place, restored copy-on-write as often as wanted. Its disks are empty, its
// network leads nowhere, and nothing of ours is around it.
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { atEnd, folder, has, note, proportionalBytes, start, stop, until } from "./host.ts";

export const program = "qemu-system-x86_64";
const memoryMiB = 2048;
const disks = ["root", "scratch", "bundle"];

export interface Machine {
  files: string;
  memory: string;
  state: string;
}

interface Monitor {
  socket: Socket;
  lines: AsyncIterator<string>;
}

async function monitor(path: string): Promise<Monitor> {
  let socket: Socket | undefined;
  await until("QEMU's monitor", async () => {
    const next = connect(path);
    await once(next, "connect");
    socket = next;
    return true;
  });
  const lines: Interface = createInterface({ input: socket as Socket });
  const made = { socket: socket as Socket, lines: lines[Symbol.asyncIterator]() };
  await made.lines.next(); // the greeting
  await command(made, "qmp_capabilities");
  return made;
}

async function command(on: Monitor, execute: string, args?: object): Promise<unknown> {
  on.socket.write(`${JSON.stringify({ execute, ...(args && { arguments: args }) })}\n`);
  for (;;) {
    const { value, done } = await on.lines.next();
    if (done) throw new Error(`QEMU ended at ${execute}`);
    const answer = JSON.parse(value as string) as { return?: unknown; error?: unknown };
    if (answer.error) throw new Error(`${execute}: ${JSON.stringify(answer.error)}`);
    if ("return" in answer) return answer.return;
  }
}

/* A guest that had to measure it would give up on a host that is busy. */
function clock(): string {
  const mhz = /^cpu MHz\s*:\s*([\d.]+)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1];
  return mhz ? `tsc_early_khz=${Math.round(Number(mhz) * 1000)}` : "";
}

let count = 0;

function launch(machine: Machine, isCopy: boolean) {
  const name = join(folder, `qemu-${++count}`);
  const append = `quiet panic=-1 reboot=t no_timer_check tsc=reliable ${clock()} mitigations=off helmr.channel=serial`;
  const boots = ["-kernel", `${machine.files}/kernel`, "-initrd", `${machine.files}/initrd`, "-append", append];
  const child = start(program, [
    ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
    "-M",
    "microvm,acpi=on,rtc=on,isa-serial=off,ioapic2=off,suppress-vmdesc=on,memory-backend=m0",
    ...["-accel", "tcg,tb-size=128", "-cpu", "max", "-smp", "2", "-m", String(memoryMiB)],
    ...["-global", "migration.send-configuration=off"],
    "-object",
    `memory-backend-file,id=m0,size=${memoryMiB}M,mem-path=${machine.memory},share=${isCopy ? "off" : "on"}`,
    ...disks.flatMap((disk) => [
      ...["-drive", `id=${disk},if=none,driver=null-co,read-zeroes=on,size=64M`],
      ...["-device", `virtio-blk-device,drive=${disk}`],
    ]),
    ...["-device", "virtio-serial-device"],
    ...["-chardev", `socket,id=ch,path=${name}.channel,server=on,wait=off`],
    ...["-device", "virtserialport,chardev=ch,name=helmr.channel"],
    ...["-qmp", `unix:${name}.qmp,server=on,wait=off`],
    ...["-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-device,rng=r0"],
    ...["-netdev", "user,id=n0,restrict=on", "-device", "virtio-net-device,netdev=n0"],
    ...(isCopy ? ["-S", "-incoming", `exec:cat ${machine.state}`] : boots),
  ], { env: { PATH: process.env["PATH"], MALLOC_ARENA_MAX: "1" } });
  return { child, monitor: `${name}.qmp`, channel: `${name}.channel` };
}

async function boot(machine: Machine): Promise<void> {
  const { child, monitor: path, channel } = launch(machine, false);
  await until("QEMU's channel", () => existsSync(channel));
  const agent = connect(channel);
  await once(agent, "data"); // the agent's hello: the kernel and its first process are up
  const control = await monitor(path);
  await command(control, "stop");
  await command(control, "xen-save-devices-state", { filename: machine.state, live: false });
  agent.destroy();
  control.socket.destroy();
  await stop(child, "SIGKILL");
}

let ready: Promise<Machine | undefined> | undefined;

async function prepare(build: string): Promise<Machine | undefined> {
  const files = join(dirname(build), "guest-image");
  if (!(await has(program)) || !existsSync(`${files}/kernel`)) {
    note("skipped: qemu_restore, there is no QEMU or no kernel for it (make vm)");
    return undefined;
  }
  const memory = `/dev/shm/helmr-bench-memory-${process.pid}`;
  atEnd(() => rmSync(memory, { force: true }));
  const machine = { files, memory, state: join(folder, "qemu-state") };
  await boot(machine);
  return machine;
}

/** A saved machine, or nothing where there is no QEMU. */
export const rawMachine = (build: string) => (ready ??= prepare(build));

async function arrived(control: Monitor): Promise<void> {
  for (;;) {
    const { status } = (await command(control, "query-status")) as { status: string };
    if (status !== "inmigrate") return;
  }
}

/** What each of so many takes before its first instruction, in bytes of its proportional share. */
export async function sleepingMemory(machine: Machine, count: number): Promise<number[]> {
  const copies = Array.from({ length: count }, () => launch(machine, true));
  try {
    for (const { monitor: path } of copies) {
      const control = await monitor(path);
      await arrived(control);
      control.socket.destroy();
    }
    return copies.map(({ child }) => proportionalBytes(child.pid ?? 0));
  } finally {
    for (const { child } of copies) await stop(child, "SIGKILL");
  }
}

/** From the start of the process until the restored guest runs, in milliseconds. */
export async function restoreMachine(machine: Machine): Promise<number> {
  const begun = performance.now();
  const { child, monitor: path } = launch(machine, true);
  const control = await monitor(path);
  await arrived(control);
  await command(control, "cont");
  const took = performance.now() - begun;
  control.socket.destroy();
  await stop(child, "SIGKILL");
  return took;
}
