// A worker that is an ordinary user: what it can do, what it cannot, and what it leaves behind.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import { choose } from "./lib/engine.ts";
import { examples, projects } from "./lib/helmr.ts";
import { partsOf } from "./lib/host.ts";
import { command, Installation } from "./lib/installation.ts";
import { makeOrdinary, Ordinary } from "./lib/ordinary.ts";
import { freePort, makeKey, ownerSession, ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { Part } from "./lib/part.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";
import type { Scope } from "./lib/scope.ts";
import { parked, start, succeeded } from "./lib/waiting.ts";

choose("qemu");
const binary = process.env.HELMR as string;
const users = declaredScope();
const user = makeOrdinary(users);
const skip = typeof user === "string" ? user : false;
const his = user as Ordinary;

const why = (text: string): string => text.split("\n").slice(-5).join("\n");

/* What becomes of a connection, from inside. */
const dial = `import { connect } from "node:net";
const dial = (host: string, port: number) => new Promise((resolve) => {
  const socket = connect({ host, port });
  const end = (verdict: string) => { socket.destroy(); resolve(verdict); };
  socket.setTimeout(10_000, () => end("silence"));
  socket.once("connect", () => end("open"));
  socket.once("error", (error: any) => end(error.code));
});
`;

const dials = (places: Record<string, [string, number]>): string =>
  `Object.fromEntries(await Promise.all(Object.entries(${JSON.stringify(places)}).map(
    async ([name, [host, port]]) => [name, await dial(host as string, port as number)])))`;

/** `helmr up` as that user, on a data directory of its own. */
async function startUp(t: Scope): Promise<{ up: Part; dataDir: string; helmr: Installation }> {
  const dataDir = mkdtempSync(`${tmpdir()}/helmr-ordinary-`);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  his.folder(dataDir);
  his.giveBaseImage(`${dataDir}/worker`);
  const env = his.env(dataDir);
  const log = `${dataDir}.log`;
  const [file, ...words] = his.prefix();
  const place = ["--data-dir", dataDir, "--addr", `127.0.0.1:${port}`];
  const args = [...words, binary, "up", ...place, "--engine", "qemu"];
  const up = new Part(file, args, env, log);
  t.after(async () => {
    if (up.isRunning) await up.end("SIGTERM");
    rmSync(dataDir, { recursive: true, force: true });
    rmSync(`${dataDir}/worker.tar`, { force: true });
    rmSync(log);
  });
  up.start();
  await until("an active worker", () => {
    assert.ok(up.isRunning, why(readFileSync(log, "utf8")));
    return /^engine: qemu \(microvm\)/m.test(readFileSync(log, "utf8"));
  });
  await ready(url);
  const apiKey = await makeKey(url, await ownerSession(url));
  const helmr = new Installation({ binary, dataDir, url, apiKey, env: { HELMR_API_KEY: apiKey } });
  return { up, dataDir, helmr };
}

suite("helmr up of an ordinary user", { skip }, () => {
  const scope = declaredScope();
  let up: Part;
  let dataDir = "";
  let helmr: Installation;

  before(async () => ({ up, dataDir, helmr } = await startUp(scope)));

  test("deploys the first example and runs it", async () => {
    const deployment = await helmr.deployed(`${examples}hello-world`);
    const ended = await helmr.run(deployment, "hello-world", { name: "Ada" });
    assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    assert.deepEqual(ended.output, { greeting: "Hello, Ada!", file: "greeting.txt" });
    const { stdout } = await helmr.client.runs.logs.retrieve(ended.id);
    assert.match(stdout, /^Hello, Ada!\n/);
    const { body: run } = await helmr.api(`/runs/${ended.id}`);
    assert.match(run.result_version_id, /^[0-9a-f-]{36}$/);
    assert.match(await helmr.printed(["diff", ended.id]), /greeting\.txt/);
    assert.deepEqual([run.isolation.engine, run.isolation.grade], ["qemu", "microvm"]);
  });

  test("builds images, whose files have the owners that the steps gave them", async (t) => {
    const first = [
      "mkdir /srv/a && echo one > /srv/a/f && ln -s f /srv/a/l",
      "chown -hR 1000:1001 /srv/a && chmod 4711 /srv/a/f && rm /etc/debian_version",
    ];
    const steps = [first.join(" && "), "cat /srv/a/f /srv/a/l > /srv/both"]
      .map((script) => `.run(["sh", "-c", ${JSON.stringify(script)}])`)
      .join("");
    const stat = (path: string): string =>
      `(({ uid, gid, mode }) => [uid, gid, mode & 0o7777])(lstatSync("${path}"))`;
    const returns = `({
      file: ${stat("/srv/a/f")}, link: ${stat("/srv/a/l")}, root: ${stat("/srv/both")},
      both: readFileSync("/srv/both", "utf8"), isGone: !existsSync("/etc/debian_version"),
    })`;
    const head = 'import { existsSync, lstatSync, readFileSync } from "node:fs";';
    const deployment = await helmr.deployed(project(t, { "tasks/a.ts": { steps, returns, head } }));
    assert.deepEqual(await helmr.output(deployment, "a"), {
      file: [1000, 1001, 0o4711],
      link: [1000, 1001, 0o777],
      root: [0, 0, 0o644],
      both: "one\none\n",
      isGone: true,
    });
  });

  test("has no network inside", async (t) => {
    const api = Number(new URL(helmr.place.url).port);
    const returns = dials({ api: ["198.18.0.254", api], name: ["198.18.0.1", 53] });
    const deployment = await helmr.deployed(project(t, { "tasks/a.ts": { head: dial, returns } }));
    const found = await helmr.output(deployment, "a");
    for (const verdict of Object.values(found)) assert.notEqual(verdict, "open", JSON.stringify(found));
  });

  test("doctor says what root would add", async () => {
    const [file, ...words] = his.prefix();
    const env = { HELMR_DATA_DIR: dataDir, HELMR_ENGINE: "qemu", HOME: dataDir };
    const { stdout } = await command(file, [...words, binary, "doctor"], { env });
    assert.match(stdout, /^warn\s+privileges\s+not root/m);
    for (const row of ["cgroups", "network", "namespaces", "slot users"])
      assert.match(stdout, new RegExp(`^(ok|warn)\\s+${row}\\s`, "m"), stdout);
    assert.match(stdout, /^ok\s+engine qemu\s/m);
    for (const other of ["firecracker", "gvisor", "container"])
      assert.match(stdout, new RegExp(`^warn\\s+engine ${other}\\s.*needs root`, "m"), stdout);
  });

  test("nothing lives on when its worker is killed", async (t) => {
    const returns = '(console.log("here"), await new Promise((end) => setTimeout(end, 600_000)))';
    const deployment = await helmr.deployed(project(t, { "tasks/a.ts": { returns } }));
    const { id } = await helmr.client.tasks.trigger("a", undefined, { deploymentId: deployment });
    await helmr.said(id, "here");
    const machines = (): string[] => his.processes().filter((line) => line.includes("qemu-system"));
    assert.notEqual(machines().length, 0);
    const before = machines();
    // Not started again before this has looked.
    const launcher = up.pid as number;
    const { worker } = partsOf(launcher);
    process.kill(launcher, "SIGSTOP");
    process.kill(worker, "SIGKILL");
    await until("no machine", () => machines().every((line) => !before.includes(line)));
    process.kill(launcher, "SIGCONT");
    await helmr.client.runs.cancel(id);
    assert.equal(await up.end("SIGTERM"), 0);
    await until("no process", () => his.processes().length === 0);
  });
});

/* Two network namespaces: the worker's, and one that stands for the internet. */
function makeInternet(t: Scope): string | { netns: string } {
  const [inside, outside] = [`helmr-in-${process.pid}`, `helmr-out-${process.pid}`];
  const ip = (...words: string[]): void => void execFileSync("ip", words, { stdio: "pipe" });
  try {
    for (const name of [inside, outside]) {
      ip("netns", "add", name);
      t.after(() => spawnSync("ip", ["netns", "del", name]));
      ip("-n", name, "link", "set", "lo", "up");
    }
    ip("-n", inside, "link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", outside);
    for (const [name, address] of [[inside, "203.0.113.2/24"], [outside, "203.0.113.1/24"]] as const) {
      ip("-n", name, "address", "add", address, "dev", "up0");
      ip("-n", name, "link", "set", "up0", "up");
    }
    ip("-n", inside, "route", "add", "default", "via", "203.0.113.1");
  } catch (error) {
    return `no network namespaces can be made: ${error}`;
  }
  const serve = (netns: string, script: string): void => {
    const child = spawn("ip", ["netns", "exec", netns, process.execPath, "-e", script], { stdio: "ignore" });
    t.after(() => child.kill("SIGKILL"));
  };
  serve(outside, 'net.createServer((s) => s.end("hello")).listen(8080, "203.0.113.1")');
  // Answers every question with one address.
  serve(
    outside,
    `const s = dgram.createSocket("udp4");
     s.on("message", (q, from) => {
       const end = q.indexOf(0, 12) + 5;
       const answer = Buffer.from("c00c00010001000000050004cb007101", "hex");
       const head = Buffer.from(q.subarray(0, end));
       head[2] = 0x81; head[3] = 0x80;
       const isAddress = q.readUInt16BE(end - 4) === 1;
       head.writeUInt16BE(isAddress ? 1 : 0, 6); head.writeUInt16BE(0, 8); head.writeUInt16BE(0, 10);
       s.send(isAddress ? Buffer.concat([head, answer]) : head, from.port, from.address);
     });
     s.bind(53, "203.0.113.1");`,
  );
  serve(inside, 'net.createServer((s) => s.end("mine")).listen(9999, "0.0.0.0")');
  return { netns: inside };
}

suite("a worker of an ordinary user", { skip }, () => {
  const scope = declaredScope();
  let own: Own;
  let reason: string | undefined;

  before(async () => {
    const internet = makeInternet(scope);
    if (typeof internet === "string") {
      reason = internet;
      return;
    }
    own = await startOwn(scope, {
      env: { HELMR_WAIT_HOT_TIME: "0s" },
      workers: [
        {
          name: "user",
          user: his,
          netns: internet.netns,
          env: { HELMR_ENGINE: "qemu", HELMR_WORKER_CNI_PROFILE: "user-v1", HELMR_WORKER_DNS: "203.0.113.1" },
        },
      ],
    });
  });

  test("opens the internet when it is told to, and nothing of the host", async (t) => {
    if (reason) return t.skip(reason);
    const head = `${dial}\nimport { lookup } from "node:dns/promises";`;
    const places: Record<string, [string, number]> = {
      public: ["203.0.113.1", 8080],
      closed: ["203.0.113.1", 8081],
      loopback: ["198.18.0.254", 9999],
      gateway: ["198.18.0.1", 9999],
      host: ["203.0.113.2", 9999],
      metadata: ["169.254.169.254", 80],
    };
    const returns = `({ ...${dials(places)}, name: (await lookup("helmr.example")).address })`;
    const deployment = await own.deployed(project(t, { "tasks/a.ts": { head, returns } }));
    assert.deepEqual(await own.output(deployment, "a"), {
      public: "open",
      closed: "ECONNREFUSED",
      loopback: "silence",
      gateway: "silence",
      host: "silence",
      metadata: "silence",
      name: "203.0.113.1",
    });
  });

  test("parks runs, resumes them, and lets them fork", async (t) => {
    if (reason) return t.skip(reason);
    const deployment = await own.deployed(`${projects}waits`);
    const source = await start(own, deployment, "branch", {});
    await parked(own, source);
    await until("no machine", () => his.processes().every((line) => !line.includes("qemu-system")));
    const answers = ['{"approved":true}', '{"approved":false}'];
    const flags = answers.flatMap((answer) => ["--answer-json", answer]);
    const lines = (await own.printed(["fork", source, ...flags])).trim().split("\n");
    const outputs: any[] = [];
    for (const line of lines) outputs.push((await succeeded(own, line.split("\t")[0] as string)).output);
    assert.deepEqual(outputs.map(({ answer }) => answer), [{ approved: true }, { approved: false }]);
    const { pendingWait } = await own.client.runs.retrieve(source);
    await own.client.tokens.complete(pendingWait?.tokenId as string, { approved: true });
    assert.deepEqual((await succeeded(own, source)).output.answer, { approved: true });
  });

  test("is not given what denies networks, which root is", async (t) => {
    if (reason) return t.skip(reason);
    const denying = '.network({ internet: { deny: ["203.0.113.0/24"] } })';
    const path = project(t, { "tasks/a.ts": { sandbox: denying } });
    const deployment = await own.deployed(path);
    const { id } = await own.client.tasks.trigger("a", undefined, { deploymentId: deployment });
    const { body } = await own.api(`/runs/${id}`);
    assert.equal(body.queued_reason, "no_compatible_worker");
    assert.match(body.queued_detail, /denies networks/);
    const both = await startOwn(t, {
      workers: [{ name: "root" }, { name: "user", user: his, env: { HELMR_ENGINE: "qemu" } }],
    });
    const { body: list } = await both.api("/workers", { key: both.session });
    const names = new Map(list.workers.map((one: any) => [one.id, one.resource_id]));
    const again = await both.deployed(path);
    const ended = await both.run(again, "a");
    assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    const lease = (await both.runEvents(ended.id)).find(({ kind }) => kind === "run.lease_started");
    assert.equal(names.get(lease?.attributes.worker_id), "root");
    await own.client.runs.cancel(id);
    await both.stop();
  });
});
