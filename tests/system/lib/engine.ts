// The engines that tests know, and the one under test: what it is, and what it does in its own way.
import assert from "node:assert/strict";

export interface Engine {
  readonly name: string;
  readonly grade: string;
  /** What an environment can ask for that no worker with it has, and what it asks for instead, as
   * options of the command line. */
  readonly lacks: { readonly flags: readonly string[]; readonly remedy: readonly string[] };
  /** A waiting program can leave as a checkpoint. */
  readonly saves: boolean;
  /** Connections inside a sandbox live on in a checkpoint, whichever process has them. */
  readonly savesConnections: boolean;
  /** Its files are on a disk of the size that the sandbox declares. */
  readonly limitsDisk: boolean;
  /** The kernel of a program is nobody else's. */
  readonly hasOwnKernel: boolean;
  /** Its clock is set by the worker; else it is the host's. */
  readonly hasOwnClock: boolean;
  /** How many times as long as on gVisor things may take, when nothing helps it. */
  readonly slowness: number;
  /** This is the command of the main process of the sandbox of an instance. */
  readonly isSandbox: (command: readonly string[], instance: string) => boolean;
}

const anyGrade = ["--min-grade", "shared-kernel"];

const machine = {
  grade: "microvm",
  // No grade is more than it has: a group that no worker is in is.
  lacks: { flags: ["--worker-group", "nobodys"], remedy: ["--worker-group", "default"] },
  saves: true,
  savesConnections: true,
  limitsDisk: true,
  hasOwnKernel: true,
  hasOwnClock: true,
  slowness: 5,
} as const;

export const engines: readonly Engine[] = [
  {
    ...machine,
    name: "firecracker",
    isSandbox: (command, instance) =>
      /firecracker/.test(command[0] ?? "") && command.some((word) => word.includes(instance)),
  },
  {
    ...machine,
    name: "qemu",
    isSandbox: (command, instance) =>
      /qemu-system-/.test(command[0] ?? "") && command.includes(`helmr-${instance.slice(-12)}`),
  },
  {
    name: "gvisor",
    grade: "user-kernel",
    lacks: { flags: ["--min-grade", "microvm"], remedy: anyGrade },
    saves: true,
    savesConnections: false,
    limitsDisk: true,
    hasOwnKernel: false,
    hasOwnClock: false,
    slowness: 1,
    isSandbox: ([program, root], instance) =>
      program === "runsc-sandbox" && (root ?? "").includes(`/${instance}/`),
  },
  {
    name: "container",
    grade: "shared-kernel",
    lacks: { flags: ["--min-grade", "user-kernel"], remedy: anyGrade },
    saves: false,
    savesConnections: false,
    limitsDisk: false,
    hasOwnKernel: false,
    hasOwnClock: false,
    slowness: 1,
    isSandbox: () => false,
  },
];

function known(name: string | undefined): Engine {
  const found = engines.find((one) => one.name === name);
  assert.ok(found, `there is no engine ${name}: start the tests with tests/system/run`);
  return found;
}

/** What the shared Helmr took, and so do those that tests start, when nobody names another. */
export let engine = known(process.env.SYSTEM_ENGINE);

/** From now on this one is under test: its test starts a Helmr with it. */
export function choose(name: string): void {
  engine = known(name);
}

/** How long to wait at most for what takes so long at most on gVisor. */
export const patience = (ms: number): number => ms * engine.slowness;
