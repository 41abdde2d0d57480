// Machines: many copies of one template, and guests that do their worst to the kernel they have.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { choose, patience } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { childrenOf, commandOf } from "./lib/host.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { happened, noSandbox, start, succeeded } from "./lib/waiting.ts";

const inARow = Number(process.env.MACHINE_STARTS ?? 10);
const atOnce = 20;
const standbys = 3;

/* A disk or a port of the machine, made anew where the program has none. */
const node = (kind: "b" | "c", file: string): string =>
  `mknod /tmp/node ${kind} $(tr : ' ' < ${file})`;

/* What a program with every right in its guest does to it. A guest without a kernel is delivered
 * again, as often as any that is lost. */
const attacks: readonly { what: string; mayEndWell?: boolean; script: string }[] = [
  {
    what: "writes garbage over its own disk",
    mayEndWell: true,
    script: `
    for disk in /sys/block/vd*; do
      rm -f /tmp/node && ${node("b", "$disk/dev")} && dd if=/dev/urandom of=/tmp/node bs=1M count=64
    done
    find / -xdev -type f -exec cat {} + > /dev/null`,
  },
  {
    what: "panics its kernel",
    script: "echo c > /proc/sysrq-trigger; sleep 60",
  },
  {
    what: "keeps the processor from the agent",
    mayEndWell: true,
    script: `
      for n in $(seq 400); do timeout 30 sh -c 'while :; do :; done' & done; wait`,
  },
];

describe("a worker with machines", () => {
  const scope = declaredScope();
  let own: Own;
  let tasks = "";

  before(async () => {
    choose("qemu");
    const env = {
      HELMR_ENGINE: "qemu",
      HELMR_WORKER_STANDBYS: String(standbys),
      HELMR_WORKER_EXECUTION_SLOTS: String(atOnce),
      HELMR_WORKER_CAPACITY_VCPUS: String(2 * atOnce),
      HELMR_WORKER_CAPACITY_MEMORY_MIB: "65536",
    };
    own = await startOwn(scope, { env });
    tasks = await own.deployed(`${projects}tasks`);
  });

  const startOf = async (id: string): Promise<string> =>
    (await happened(own, id, "run.lease_started")).attributes.start;

  test("the first start of a kind boots, and later ones are copies", async () => {
    const starts: string[] = [];
    do {
      const id = await start(own, tasks, "naps", {});
      await succeeded(own, id);
      starts.push(await startOf(id));
    } while (starts.at(-1) === "boot" && starts.length < 20);
    assert.equal(starts[0], "boot");
    assert.match(starts.at(-1) as string, /^(standby|template)$/);
  });

  test(`${inARow} starts in a row are copies`, async () => {
    for (let n = 0; n < inARow; n++) {
      const id = await start(own, tasks, "naps", {});
      await succeeded(own, id);
      assert.match(await startOf(id), /^(standby|template)$/);
    }
  });

  test(`${atOnce} starts at once are copies of one template`, async () => {
    const ids = await Promise.all(
      Array.from({ length: atOnce }, () => start(own, tasks, "naps", { ms: 2000 })),
    );
    for (const id of ids) {
      await succeeded(own, id);
      assert.match(await startOf(id), /^(standby|template)$/);
    }
  });

  test("copies that stand by sleep, but for the next, and all of them run", async () => {
    const machines = (): string[][] =>
      childrenOf(own.workers[0]?.pid as number)
        .map(commandOf)
        .filter(([program]) => program?.includes("qemu"));
    const isAsleepAtFirst = (command: string[]): boolean => command.includes("-S");
    await until("copies that stand by", () => machines().length === standbys);
    await until("copies that sleep", () => machines().filter(isAsleepAtFirst).length >= standbys - 1);
    const ids = await Promise.all(
      Array.from({ length: standbys }, () => start(own, tasks, "naps", { ms: 2000 })),
    );
    const starts: string[] = [];
    for (const id of ids) {
      await succeeded(own, id);
      starts.push(await startOf(id));
    }
    assert.ok(starts.filter((how) => how === "standby").length >= standbys - 1, starts.join(" "));
  });

  test("two copies have nothing random in common", async () => {
    const scripts = { ids: "cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1" };
    const one = await own.output(tasks, "shell", { scripts });
    const two = await own.output(tasks, "shell", { scripts });
    const [first, second] = [one, two].map(({ ids }) => (ids as string).split("\n"));
    assert.equal(first?.length, 3);
    first?.forEach((line, at) => assert.notEqual(line, second?.[at]));
  });

  test("a program cannot open the agent's channel", async () => {
    const script = `for port in /sys/class/virtio-ports/*; do
      rm -f /tmp/node; ${node("c", "$port/dev")}; cat < /tmp/node; echo said $?; done`;
    const { open } = await own.output(tasks, "shell", { scripts: { open: script } });
    assert.match(open, /said [1-9]/);
    assert.doesNotMatch(open, /said 0/);
  });

  for (const { what, mayEndWell, script } of attacks)
    test(`a guest that ${what} harms itself only`, async () => {
      const id = await start(own, tasks, "shell", { scripts: { attack: script } });
      const ended = await own.client.runs.wait(id, { timeoutMs: patience(240_000) });
      if (!mayEndWell || ended.status !== "succeeded")
        assert.equal(ended.error?.layer, "guest_runtime", JSON.stringify(ended));
      assert.ok(own.workers[0]?.isRunning, own.log.slice(-2000));
      await succeeded(own, await start(own, tasks, "naps", {}));
    });

  test("nothing is left on the host", async () => {
    await own.stopClean();
    await noSandbox(own);
  });
});
