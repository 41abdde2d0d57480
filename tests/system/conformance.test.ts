// What every engine does alike, each in a Helmr of its own.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { before, describe, test } from "node:test";
import { contract, contractScripts } from "./lib/contract.ts";
import { choose, engines, patience } from "./lib/engine.ts";
import { Commands } from "./lib/exec.ts";
import { projects } from "./lib/helmr.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { happened, parked, start, succeeded, waiting } from "./lib/waiting.ts";

/* What runs on any host; Firecracker is asked for by name. */
const anywhere = ["gvisor", "container", "qemu"];

const asked = process.env.HELMR_ENGINE;
const names = asked === undefined ? anywhere : [asked];

for (const engine of engines.filter(({ name }) => names.includes(name)))
  describe(`on ${engine.name}`, () => {
    const scope = declaredScope();
    let own: Own;
    let tasks = "";
    let limits = "";
    let waits = "";

    before(async () => {
      choose(engine.name);
      const env = { HELMR_ENGINE: engine.name, HELMR_WAIT_HOT_TIME: "0s", HELMR_WORKER_STANDBYS: "1" };
      own = await startOwn(scope, { env });
      tasks = await own.deployed(`${projects}tasks`);
      limits = await own.deployed(`${projects}limits`);
      waits = await own.deployed(`${projects}waits`);
    });

    const look = (scripts: Record<string, string>): Promise<Record<string, string>> =>
      own.output(tasks, "shell", { scripts });

    test("a run starts, ends, and says how well it was isolated", async () => {
      const ended = await own.run(tasks, "naps", { ms: 10 });
      assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
      const { attributes } = await happened(own, ended.id, "run.lease_started");
      assert.equal(attributes.engine, engine.name);
      assert.equal(attributes.grade, engine.grade);
    });

    test("a program finds what it may count on", async () => {
      const seen = await own.output(tasks, "shell", {
        scripts: contractScripts,
        note: "scripts-of-this-run",
      });
      for (const [name, script, expected] of contract) assert.match(seen[name], expected, `${name}: ${script}`);
    });

    test("commands run in a workspace without a run", async () => {
      const box = await Commands.create(own, "small", { deployment_id: tasks });
      const first = await box.sh("echo out; echo err >&2; echo kept > file; exit 7");
      assert.deepEqual([first.exit_code, first.out, first.err], [7, "out\n", "err\n"]);
      const sleeper = await box.start(["sleep", "1000"]);
      await box.running(sleeper.id);
      assert.match((await box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out, /sleep 1000/);
      await box.stop();
      assert.equal((await box.wait(sleeper.id)).state, "exited");
      assert.equal((await box.sh("cat file")).out, "kept\n");
      await box.stop();
    });

    test("a program that takes too much memory is ended, and its run says so", async () => {
      const ended = await own.run(limits, "hogs", { mib: 4096 });
      assert.equal(ended.status, "failed");
      assert.equal(ended.error?.layer, "guest_runtime", JSON.stringify(ended.error));
      assert.equal(ended.error?.failureKind, "out_of_memory", JSON.stringify(ended.error));
    });

    test("a program cannot start processes without end", async () => {
      const id = await start(own, limits, "forks", { processes: 20_000 });
      const ended = await own.client.runs.wait(id, { timeoutMs: patience(600_000) });
      if (ended.status === "succeeded") {
        assert.ok((ended.output as { isRefused: boolean }).isRefused, JSON.stringify(ended.output));
      } else {
        assert.equal(ended.attemptNumber, 1);
        const { failureKind, message } = ended.error ?? {};
        assert.match(`${failureKind}: ${message}`, /^out_of_memory|^task_failed: .*processes/);
      }
    });

    test("a program that fills its disk is told so", async (t) => {
      if (!engine.limitsDisk) return t.skip("its files are on the worker's disk");
      for (const path of ["/workspace/fill", "/var/fill"]) {
        const made = await own.output(limits, "fills", { mib: 4096, path });
        assert.equal(made.error, "ENOSPC", JSON.stringify(made));
        assert.ok(made.written < 1024, JSON.stringify(made));
      }
    });

    test("the next run is as good as the first", async () => {
      assert.deepEqual(await look({ echo: "echo fine" }), { echo: "fine" });
    });

    test("a run sees no other run and nothing of the host", async () => {
      const mark = `mark-${process.pid}-${engine.name}`;
      const holder = await start(own, tasks, "holds", { mark });
      await own.said(holder, "holding");
      const seen = await look({
        files: `find / -xdev -name '${mark}' 2>/dev/null | wc -l`,
        processes: `cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[:] ${mark}'`,
        disks: "cd /dev && ls | grep -cE '^(vd|sd|nvme|loop|kvm|mem|kmsg|fuse)'",
      });
      assert.deepEqual(seen, { files: "0", processes: "0", disks: "0" });
      await own.client.runs.cancel(holder, { force: true });
      await own.client.runs.wait(holder, { timeoutMs: patience(60_000) });
    });

    test("a run reaches neither the host nor private networks", async (t) => {
      let visits = 0;
      const host = createServer((socket) => socket.end()).on("connection", () => visits++);
      await new Promise((resolve) => host.listen(0, "0.0.0.0", () => resolve(undefined)));
      t.after(() => host.close());
      const { port } = host.address() as { port: number };
      const mine = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      const addresses = mine.filter(({ family }) => family === "IPv4").map(({ address }) => address);
      const places = [
        ...["198.18.0.1", ...addresses].map((at): [string, number] => [at, port]),
        ...["169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.0.1"].map((at): [string, number] => [at, 80]),
      ].filter(([at]) => at !== "127.0.0.1");
      for (const answer of await own.output(tasks, "reaches", { places }))
        assert.notEqual(answer, "connected");
      assert.equal(visits, 0);
    });

    test("output arrives whole and in order, however much there is", async () => {
      const bytes = 8 * 1024 * 1024;
      const ended = await own.run(tasks, "floods", { bytes });
      assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
      const stdout = await own.printed(["logs", ended.id]);
      assert.equal(stdout.length, bytes);
      stdout.split("\n").slice(0, -1).forEach((line, at) => assert.equal(Number.parseInt(line, 10), at));
    });

    test("a program that waits goes on where it stood", async () => {
      const id = await start(own, waits, "approve", { name: "Ada" });
      const { tokenId } = await (engine.saves ? parked(own, id) : waiting(own, id));
      await own.client.tokens.complete(tokenId as string, { approved: true });
      const { content, heard, timer, count } = (await succeeded(own, id)).output;
      assert.deepEqual(
        { content, heard, timer, count },
        { content: "Ada before and after", heard: "heard Ada\n", timer: "rang", count: 2 },
      );
      const { attributes } = await happened(own, id, "run.resumed");
      assert.equal(attributes.mode, engine.saves ? "restored" : "hot");
    });

    test("a killed worker leaves a run that ends all the same", async () => {
      const id = await start(own, tasks, "naps", { ms: 3000 });
      await happened(own, id, "run.lease_started");
      const [worker] = own.workers;
      await worker?.end("SIGKILL");
      worker?.start();
      await own.active();
      await succeeded(own, id);
    });

    test("nothing is left on the host", async () => {
      await own.stop();
      await until("an empty host", () => own.leftovers().length === 0);
    });
  });
