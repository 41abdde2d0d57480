// Parking, with the test as the agent on both descriptors. It cannot restore one memory twice; it
// can show that what such copies would share is replaced.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { decodeBody } from "../src/codec.ts";
import type { ABusy, AConsumed, AHello, AOp, AParked, AReseeded } from "../src/messages.ts";
import { Guest, hasAddon } from "./guest.ts";
import type { Program } from "./guest.ts";
import { taskWith } from "./tasks.ts";

const parkable = {
  skip: hasAddon ? false : "the addon is not built: make guest",
  /* A frame that never comes is waited for. */
  timeout: 30_000,
};
const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const completed = (data: unknown): Buffer => bytes({ condition: "completed", data });

const identity = {
  run_id: "run-2",
  attempt: 2,
  attempt_id: "attempt-2",
  lease_id: "lease-2",
  session_id: "session-2",
  workspace_id: "workspace-2",
  snapshot_version: 7,
};

async function park(program: Program, number = 1): Promise<AParked> {
  program.send("A_PARK", { deadlineMs: 5000, number });
  return program.next<AParked>("A_PARKED");
}

async function reseed(program: Program): Promise<number> {
  program.sendBarrier("A_RESEED", { entropy: randomBytes(64) });
  return (await program.next<AReseeded>("A_RESEEDED")).ok;
}

function resume(program: Program, op: bigint, data: unknown, resumeVersion = 1): void {
  const body = completed(data);
  const json = JSON.stringify(identity);
  program.sendBarrier("A_RESUME", { resumeVersion, op, status: 0, body, identity: json });
}

test("the adapter says whether it can be reseeded", parkable, async () => {
  using guest = new Guest(taskWith("async () => 1"));
  const program = guest.start({});
  const { canReseed } = decodeBody<AHello>("A_HELLO", (await program.until("A_HELLO")).body);
  await program.ended;
  assert.equal(canReseed, 1);
});

test("without the addon tasks run and are not parked", async () => {
  using guest = new Guest(taskWith("async (ctx) => ctx.wait.human()"));
  rmSync(join(guest.root, "adapter/reseed.node"), { force: true });
  const program = guest.start({});
  const { canReseed } = decodeBody<AHello>("A_HELLO", (await program.until("A_HELLO")).body);
  const { op } = await program.next<AOp>("A_OP");
  program.send("A_PARK", { deadlineMs: 5000, number: 1 });
  const { reason } = await program.next<ABusy>("A_BUSY");
  program.send("A_RESULT", { op, status: 0, body: completed("hot") });
  assert.deepEqual([canReseed, (await program.ended).output], [0, "hot"]);
  assert.match(reason, /cannot reseed/);
});

test("a parked program goes on with the answer and as somebody else", parkable, async () => {
  const who = `[ctx.run.id, ctx.run.attemptNumber, ctx.run.attemptId, ctx.run.runLeaseId,
    ctx.session.id, ctx.workspace.id, ctx.run.snapshotVersion, process.env.KEY]`;
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const { run } = ctx;
      const before = ${who};
      const answer = await ctx.wait.human({ displayText: "?" });
      return { before, answer, after: ${who}, same: run.id };
    }`),
  );
  const program = guest.start(
    {
      runId: "run-1",
      attempt: 1,
      attemptId: "attempt-1",
      leaseId: "lease-1",
      sessionId: "session-1",
      workspaceId: "workspace-1",
    },
    undefined,
    { KEY: "old" },
  );
  const { op } = await program.next<AOp>("A_OP");
  assert.deepEqual(await park(program, 3), { op, number: 3n });
  assert.equal(await reseed(program), 1);
  program.sendBarrier("A_ENV", { name: "KEY", value: Buffer.from("new") });
  resume(program, op, { approved: true }, 7);
  assert.deepEqual(await program.next<AConsumed>("A_CONSUMED"), { resumeVersion: 7n });
  assert.deepEqual((await program.ended).output, {
    before: ["run-1", 1, "attempt-1", "lease-1", "session-1", "workspace-1", 0, "old"],
    answer: { approved: true },
    after: ["run-2", 2, "attempt-2", "lease-2", "session-2", "workspace-2", 7, "new"],
    same: "run-2",
  });
});

test("a parked program does nothing", parkable, async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const { writeFileSync } = await import("node:fs");
      let ticks = 0;
      const timer = setInterval(() => writeFileSync("ticks", String(++ticks)), 1);
      const answer = await ctx.wait.human();
      clearInterval(timer);
      return answer;
    }`),
  );
  const program = guest.start({});
  const { op } = await program.next<AOp>("A_OP");
  await park(program);
  const ticks = (): string => {
    const path = join(guest.workspace, "ticks");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  };
  const before = ticks();
  /* Its answer comes after whatever it could have done meanwhile. */
  for (let i = 0; i < 20; i++) await reseed(program);
  assert.equal(ticks(), before);
  resume(program, op, 1);
  assert.equal((await program.ended).output, 1);
});

test("a thawed program waits as before and is answered hot", parkable, async () => {
  using guest = new Guest(taskWith("async (ctx) => [await ctx.wait.human(), ctx.run.id]"));
  const program = guest.start({ runId: "run-1" });
  const { op } = await program.next<AOp>("A_OP");
  await park(program, 1);
  program.sendBarrier("A_THAW", { number: 1 });
  await park(program, 2);
  program.sendBarrier("A_THAW", {});
  program.send("A_RESULT", { op, status: 0, body: completed("hot") });
  assert.deepEqual((await program.ended).output, ["hot", "run-1"]);
});

test("a thaw that came too late does not end the next park", parkable, async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => { await tokens.create(); return ctx.wait.human(); }`),
  );
  const program = guest.start({});
  const create = await program.next<AOp>("A_OP");
  program.send("A_PARK", { deadlineMs: 1, number: 1 });
  assert.equal((await program.next<ABusy>("A_BUSY")).number, 1n);
  /* As an agent would whose patience ended before the refusal came. */
  program.sendBarrier("A_THAW", { number: 1 });
  const body = bytes({ id: "t", created_at: "2026-01-01", updated_at: "2026-01-01" });
  program.send("A_RESULT", { op: create.op, status: 0, body });
  const { op } = await program.next<AOp>("A_OP");
  assert.equal((await park(program, 2)).op, op);
  assert.equal(await reseed(program), 1);
  resume(program, op, "once");
  assert.equal((await program.ended).output, "once");
});

test("a program that was busy too long is thawed when it comes to park", parkable, async () => {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const wait = ctx.wait.human();
      const { existsSync } = await import("node:fs");
      await new Promise((resolve) => setTimeout(resolve, 1));
      while (!existsSync("go"));
      return wait;
    }`),
  );
  const program = guest.start({});
  const { op } = await program.next<AOp>("A_OP");
  program.send("A_PARK", { deadlineMs: 1, number: 1 });
  program.sendBarrier("A_THAW", { number: 1 });
  guest.write({ "workspace/go": "" });
  assert.equal((await program.next<AParked>("A_PARKED")).number, 1n);
  program.send("A_RESULT", { op, status: 0, body: completed("hot") });
  assert.equal((await program.ended).output, "hot");
});

const busy: [string, string, RegExp][] = [
  [
    "an operation is pending beside the wait",
    "async (ctx) => { void tokens.create(); return ctx.wait.human(); }",
    /operation is pending/,
  ],
  ["it does not wait", "async (ctx) => tokens.create()", /operation is pending/],
  [
    "it waits for something of its own",
    `async (ctx) => { await ctx.wait.human();
       await new Promise((r) => setTimeout(r, 2 ** 30)); }`,
    /no wait is pending/,
  ],
];

for (const [what, run, wanted] of busy)
  test(`a park is refused while ${what}`, parkable, async () => {
    using guest = new Guest(taskWith(run));
    const program = guest.start({});
    const { op, kind } = await program.next<AOp>("A_OP");
    if (wanted.source.startsWith("no")) {
      program.send("A_RESULT", { op, status: 0, body: completed(1) });
      assert.equal(kind, "wait.open");
    }
    program.send("A_PARK", { deadlineMs: 5000, number: 9 });
    const { reason, number } = await program.next<ABusy>("A_BUSY");
    program.child.kill("SIGKILL");
    await program.ended;
    assert.match(reason, wanted);
    assert.equal(number, 9n);
  });

test("an answer that was taken before is only acknowledged", parkable, async () => {
  using guest = new Guest(
    taskWith("async (ctx) => [await ctx.wait.human(), await ctx.wait.human()]"),
  );
  const program = guest.start({});
  const first = await program.next<AOp>("A_OP");
  await park(program);
  resume(program, first.op, "first", 1);
  await program.next<AConsumed>("A_CONSUMED");
  const second = await program.next<AOp>("A_OP");
  await park(program, 2);
  resume(program, first.op, "again", 1);
  assert.equal((await program.next<AConsumed>("A_CONSUMED")).resumeVersion, 1n);
  /* Also a first resume of the second wait may have this number. */
  resume(program, second.op, "second", 1);
  await program.next<AConsumed>("A_CONSUMED");
  assert.deepEqual((await program.ended).output, ["first", "second"]);
});

/** What the task that looks into its own memory would draw next, and what it drew. */
async function drawn(isReseeded: boolean): Promise<{ ahead: string[]; then: string[] }> {
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const { randomUUID } = await import("node:crypto");
      const { closeSync, openSync, readFileSync, readSync } = await import("node:fs");
      const drawn = Array.from({ length: 64 }, () => randomUUID());
      const bytes = (uuid) => Buffer.from(uuid.replaceAll("-", ""), "hex");
      /* Version and variant are set when it is printed: the first six bytes are as drawn. */
      const [wanted, last] = [bytes(drawn[62]).subarray(0, 6), bytes(drawn[63]).subarray(0, 6)];
      const ahead = [];
      const memory = openSync("/proc/self/mem", "r");
      for (const line of readFileSync("/proc/self/maps", "utf8").split("\\n")) {
        const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? [];
        if (from === undefined || Number("0x" + to) - Number("0x" + from) > 2 ** 28) continue;
        const region = Buffer.alloc(Number("0x" + to) - Number("0x" + from));
        try { readSync(memory, region, 0, region.length, Number("0x" + from)); } catch { continue; }
        for (let at = region.indexOf(wanted); at >= 0; at = region.indexOf(wanted, at + 1))
          if (region.subarray(at + 16, at + 22).equals(last))
            for (let i = 2; i < 34; i++)
              ahead.push(region.toString("hex", at + i * 16, at + i * 16 + 6));
      }
      closeSync(memory);
      await ctx.wait.human();
      const then = Array.from({ length: 32 }, () => bytes(randomUUID()).toString("hex", 0, 6));
      return { ahead, then };
    }`),
  );
  const program = guest.start({});
  const { op } = await program.next<AOp>("A_OP");
  await park(program);
  if (isReseeded) assert.equal(await reseed(program), 1);
  resume(program, op, null);
  return (await program.ended).output as { ahead: string[]; then: string[] };
}

test("a reseed replaces UUIDs that were drawn ahead", parkable, async () => {
  const control = await drawn(false);
  assert.deepEqual(
    control.then,
    control.ahead.filter((uuid) => control.then.includes(uuid)).slice(0, 32),
    "what lies in memory is what comes next",
  );
  const { ahead, then } = await drawn(true);
  assert.ok(ahead.length >= 32);
  assert.deepEqual(
    then.filter((uuid) => ahead.includes(uuid)),
    [],
  );
});

/** The numbers of a program whose Math.random began in a state that every such program has. */
async function numbers(isReseeded: boolean): Promise<number[]> {
  using guest = new Guest(
    taskWith(
      `async (ctx) => { await ctx.wait.human(); return Array.from({ length: 8 }, () => kept()); }`,
    ),
  );
  const path = join(guest.root, "task/tasks/task.ts");
  /* A reference that the module kept is reseeded, too. */
  writeFileSync(path, `const kept = Math.random;\n${readFileSync(path, "utf8")}`);
  guest.write({ "same.cjs": "Math.random = () => 0.7;" });
  const program = guest.launch(["--require", join(guest.root, "same.cjs")]);
  program.send("A_START", guest.startMessage({}));
  const { op } = await program.next<AOp>("A_OP");
  await park(program);
  if (isReseeded) {
    program.sendBarrier("A_RESEED", { entropy: Buffer.alloc(64) });
    assert.equal((await program.next<AReseeded>("A_RESEEDED")).ok, 1);
  }
  resume(program, op, null);
  return (await program.ended).output as number[];
}

test("a reseed makes equal programs draw other numbers, whatever the entropy", parkable, async () => {
  const control = await numbers(false);
  assert.deepEqual(await numbers(false), control);
  const [one, other] = [await numbers(true), await numbers(true)];
  assert.equal(new Set([...control, ...one, ...other]).size, 24);
  assert.ok(one.every((number) => number >= 0 && number < 1));
});

test("Math.random looks as it always did", async () => {
  using guest = new Guest(
    taskWith(`async () => {
      const { writable, enumerable, configurable } = Object.getOwnPropertyDescriptor(Math, "random");
      const drawn = Array.from({ length: 100000 }, () => Math.random());
      return { writable, enumerable, configurable, name: Math.random.name,
        length: Math.random.length, isMethod: !Object.hasOwn(Math.random, "prototype"),
        inRange: drawn.every((n) => n >= 0 && n < 1), distinct: new Set(drawn).size,
        mean: Math.round(drawn.reduce((sum, n) => sum + n) / 10000) };
    }`),
  );
  assert.deepEqual((await guest.run()).output, {
    writable: true,
    enumerable: false,
    configurable: true,
    name: "random",
    length: 0,
    isMethod: true,
    inRange: true,
    distinct: 100_000,
    mean: 5,
  });
});

test("connections that were kept are not used after a park", parkable, async () => {
  const sockets: Socket[] = [];
  const server = createServer((request, response) => {
    if (!sockets.includes(request.socket)) sockets.push(request.socket);
    response.end(String(sockets.indexOf(request.socket)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  using guest = new Guest(
    taskWith(`async (ctx) => {
      const http = await import("node:http");
      const rest = () => new Promise((resolve) => setTimeout(resolve, 5));
      const get = () => new Promise((resolve, reject) => http.get("${url}", (response) => {
        let text = "";
        response.on("data", (part) => (text += part));
        response.on("end", () => resolve(rest().then(() => text)));
      }).on("error", reject));
      const fetched = async () => {
        const text = await (await fetch("${url}")).text();
        await rest();
        return text;
      };
      const before = [await get(), await get(), await fetched(), await fetched()];
      await ctx.wait.human();
      return [before, await get(), await fetched()];
    }`),
  );
  const program = guest.start({});
  const { op } = await program.next<AOp>("A_OP");
  await park(program);
  assert.equal(await reseed(program), 1);
  resume(program, op, null);
  const { output } = await program.ended;
  server.close();
  assert.deepEqual(output, [["0", "0", "1", "1"], "2", "3"]);
});

test("a program at the gate is reseeded before it is started", parkable, async () => {
  using guest = new Guest(taskWith("async () => Math.random()"));
  const program = guest.launch();
  program.send("A_RESEED", { entropy: randomBytes(64) });
  assert.equal((await program.next<AReseeded>("A_RESEEDED")).ok, 1);
  program.send("A_START", guest.startMessage({}));
  assert.equal(typeof (await program.ended).output, "number");
});

const talks = `async (ctx) => {
  const { connect, createServer } = await import("node:net");
  const { once } = await import("node:events");
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => socket.write("heard " + data));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  const open = () => connect(port, "127.0.0.1");
  const asked = (socket) => new Promise((resolve) => {
    socket.on("error", ({ code }) => resolve(code));
    socket.once("data", (data) => resolve(String(data)));
    socket.write("it");
  });
  const kept = open();
  const before = await asked(kept);
  await ctx.wait.human({ metadata: { port } });
  return [before, kept.errored ? kept.errored.code : await asked(kept), await asked(open())];
}`;

async function isAnswered(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  const answered = new Promise<boolean>((resolve) => {
    socket.on("connect", () => resolve(true));
    socket.on("error", () => resolve(false));
  });
  return answered.finally(() => socket.destroy());
}

for (const [withoutTcp, stays, kept] of [[1, false, "ECONNRESET"], [0, true, "heard it"]] as const)
  test(`TCP ${stays ? "stays open" : "is closed"} while parked when asked so`, parkable, async () => {
    using guest = new Guest(taskWith(talks));
    const program = guest.start({});
    const { op, body } = await program.next<AOp>("A_OP");
    const { metadata } = JSON.parse(Buffer.from(body).toString());
    program.send("A_PARK", { deadlineMs: 5000, number: 1, withoutTcp });
    await program.next<AParked>("A_PARKED");
    assert.equal(await isAnswered(metadata.port), stays);
    assert.equal(await reseed(program), 1);
    resume(program, op, null);
    assert.deepEqual((await program.ended).output, ["heard it", kept, "heard it"]);
  });
