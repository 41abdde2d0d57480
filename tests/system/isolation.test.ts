import assert from "node:assert/strict";
import { createServer } from "node:net";
import { networkInterfaces, release } from "node:os";
import { after, before, test } from "node:test";
import { engine, patience } from "./lib/engine.ts";
import { client, dataDir, deployed, projects, run, said, url } from "./lib/helmr.ts";
import { leftoverKinds, leftovers } from "./lib/host.ts";
import { outside } from "./lib/outside.ts";

const deployment = await deployed(`${projects}tasks`);
const mark = `mark-${process.pid}`;
const holding = 7777;

/* Whoever reaches this from a sandbox has reached the host. */
const host = createServer((socket) => socket.end());
let visits = 0;
host.on("connection", () => visits++);

let holder = "";

before(async () => {
  await new Promise((resolve) => host.listen(0, "0.0.0.0", () => resolve(undefined)));
  const handle = await client.tasks.trigger("holds", { mark }, { deploymentId: deployment });
  await said(handle.id, "holding");
  holder = handle.id;
});

after(async () => {
  host.close();
  await client.runs.cancel(holder, { force: true });
  await client.runs.wait(holder, { timeoutMs: patience(30_000) });
});

async function look(scripts: Record<string, string>): Promise<Record<string, string>> {
  const ended = await run(deployment, "shell", { scripts });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  return ended.output as Record<string, string>;
}

async function reach(places: [string, number][]): Promise<string[]> {
  const ended = await run(deployment, "reaches", { places });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  return ended.output as string[];
}

const addresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((list) => list ?? [])
    .filter(({ family }) => family === "IPv4")
    .map(({ address }) => address);

test("what a run needs of the host can be seen there while it is going", () => {
  const kinds = new Set(leftovers(dataDir).map((found) => found.split(":")[0]));
  assert.deepEqual(
    leftoverKinds.filter((kind) => !kinds.has(kind)),
    [],
  );
});

test("a run sees no file of another run", async () => {
  const seen = await look({
    files: `find / -xdev -name '${mark}' 2>/dev/null | wc -l`,
    shared: `find /dev/shm /tmp /workspace | grep -c ${mark}`,
  });
  assert.deepEqual(seen, { files: "0", shared: "0" });
});

test("a run sees no process of another run or of the host", async () => {
  const { others, commands } = await look({
    others: `cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[:] ${mark}'`,
    commands: "cat /proc/[0-9]*/comm",
  });
  assert.equal(others, "0");
  assert.doesNotMatch(commands as string, /helmr$|runsc|systemd/m);
});

test("a run cannot connect to another run", async () => {
  const peers = addresses().filter((address) => address.startsWith("198.19."));
  assert.ok(peers.length > 0, "no sandbox has a link on the host");
  const others = peers.flatMap((address) => {
    const last = Number(address.split(".")[3]);
    const stem = address.split(".").slice(0, 3).join(".");
    return [address, `${stem}.${last ^ 1}`];
  });
  const all = ["127.0.0.1", "198.18.0.2", ...others];
  const places = all.map((at): [string, number] => [at, holding]);
  for (const answer of await reach(places)) assert.notEqual(answer, "connected");
});

test("a run cannot connect to the host, whatever its address", async () => {
  const { port } = host.address() as { port: number };
  const { port: server } = new URL(url);
  const all = ["127.0.0.1", "198.18.0.1", ...addresses()];
  const places = all.flatMap((at): [string, number][] => [
    [at, port],
    [at, Number(server)],
  ]);
  visits = 0;
  for (const answer of await reach(places)) assert.notEqual(answer, "connected");
  assert.equal(visits, 0);
  await fetch(`http://127.0.0.1:${port}`).catch(() => undefined);
  assert.equal(visits, 1, "the host itself cannot be reached: the test proves nothing");
});

test("a run cannot connect to metadata services or private networks", async () => {
  const blocked = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "192.0.0.192",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
  ];
  const answers = await reach(blocked.map((at) => [at, 80]));
  answers.forEach((answer, at) => assert.notEqual(answer, "connected", blocked[at]));
});

test("a run sees no file and no socket of the host", async () => {
  const seen = await look({
    data: `find ${dataDir} /var/lib/helmr ${process.cwd()} 2>/dev/null | wc -l`,
    // The agent's own, which says how often the sandbox came back; the worker's would be beside it.
    state: "ls -A /run/helmr | grep -vcx generation",
    sockets: "find / -xdev -type s 2>/dev/null | wc -l",
    disks: "cd /dev && ls | grep -cE '^(vd|sd|nvme|loop|kvm|mem|kmsg|fuse)'",
    mounts: `grep -c '${dataDir}' /proc/self/mountinfo`,
  });
  assert.deepEqual(seen, { data: "0", state: "0", sockets: "0", disks: "0", mounts: "0" });
});

test("a run cannot change the host's kernel", async () => {
  const { forward, memory, keys } = await look({
    forward: "echo 0 > /proc/sys/net/ipv4/ip_forward; uname -r",
    memory: "test -e /dev/mem && echo memory",
    keys: "test -w /proc/sysrq-trigger && echo writable",
  });
  assert.notEqual((forward as string).split("\n").at(-1), release());
  assert.equal(memory, "");
  // In a machine they are its own kernel's.
  if (!engine.hasOwnKernel) assert.equal(keys, "");
});

test("a run reaches the internet by name", async (t) => {
  const { registry, authorities, skip } = await outside();
  if (skip) return t.skip(skip);
  const ended = await run(deployment, "fetches", { url: registry, authorities });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.ok((ended.output as { bytes: number }).bytes > 0);
});

test("a name that points into a private network has no address", async () => {
  const { answer } = await look({ answer: "getent ahostsv4 localtest.me || echo none" });
  assert.equal(answer, "none");
});
