import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { APreloaded } from "../src/messages.ts";
import { Guest } from "./guest.ts";
import type { Ended, Program } from "./guest.ts";
import { taskHead, taskWith } from "./tasks.ts";

const loadedWhen = `globalThis.loaded = (globalThis.loaded ?? 0) + 1;\n`;

function counting(id: string): string {
  return `${taskHead}${loadedWhen}export const subject = task({ id: "${id}", sandbox: sbx,
    run: async () => ({ id: "${id}", loaded: globalThis.loaded, variable: process.env.VARIABLE }) });`;
}

async function preload(guest: Guest, module?: string): Promise<[Program, APreloaded]> {
  const program = guest.launch();
  program.send("A_PRELOAD", { module, workspacePath: guest.workspace });
  return [program, await program.next<APreloaded>("A_PRELOADED")];
}

function start(guest: Guest, program: Program, module: string): Promise<Ended> {
  program.send("A_ENV", { name: "VARIABLE", value: Buffer.from("of the run") });
  program.send("A_START", guest.startMessage({ module }));
  return program.ended;
}

test("a module that was loaded ahead is not loaded again", async () => {
  using guest = new Guest({ "tasks/a.ts": counting("a") });
  const [program, { ok }] = await preload(guest, "tasks/a.ts");
  assert.equal(ok, 1);
  const { code, output, stdout, stderr } = await start(guest, program, "tasks/a.ts");
  assert.deepEqual([code, stdout, stderr], [0, "", ""]);
  assert.deepEqual(output, { id: "a", loaded: 1, variable: "of the run" });
});

test("another module than the one loaded ahead is loaded as ever", async () => {
  using guest = new Guest({ "tasks/a.ts": counting("a"), "tasks/b.ts": counting("b") });
  const [program] = await preload(guest, "tasks/a.ts");
  const { output } = await start(guest, program, "tasks/b.ts");
  assert.deepEqual(output, { id: "b", loaded: 2, variable: "of the run" });
});

test("without a module nothing of the task is run ahead", async () => {
  using guest = new Guest({ "tasks/a.ts": counting("a") });
  const [program, { ok }] = await preload(guest);
  assert.equal(ok, 1);
  const { output } = await start(guest, program, "tasks/a.ts");
  assert.deepEqual(output, { id: "a", loaded: 1, variable: "of the run" });
});

test("a rehearsal leaves nothing to the task", async () => {
  const look = `async () => ({
    handlers: ["uncaughtException", "beforeExit"].map((event) => process.listenerCount(event)),
    resources: process.getActiveResourcesInfo(),
    globals: Reflect.ownKeys(globalThis).map(String).sort(),
  })`;
  using guest = new Guest(taskWith(look));
  const plain = await guest.run();
  const [program] = await preload(guest);
  const rehearsed = await start(guest, program, "tasks/task.ts");
  assert.deepEqual(rehearsed.output, plain.output);
  assert.deepEqual([rehearsed.stdout, rehearsed.logs], ["", []]);
});

async function preloadAgain(guest: Guest, program: Program): Promise<APreloaded> {
  program.send("A_PRELOAD", { workspacePath: guest.workspace });
  return await program.next<APreloaded>("A_PRELOADED");
}

test("a second rehearsal leaves no more than the first", async () => {
  const look = `async () => ({ globals: Reflect.ownKeys(globalThis).map(String).sort() })`;
  using guest = new Guest(taskWith(look));
  const plain = await guest.run();
  const [program, first] = await preload(guest);
  const second = await preloadAgain(guest, program);
  assert.deepEqual([first.ok, second.ok], [1, 1]);
  const ended = await start(guest, program, "tasks/task.ts");
  assert.deepEqual([ended.code, ended.stderr, ended.output], [0, "", plain.output]);
});

test("a second rehearsal imports all its files again", async () => {
  using guest = new Guest({});
  const [program, first] = await preload(guest);
  rmSync(join(guest.root, "adapter/rehearsal/part.ts"));
  const second = await preloadAgain(guest, program);
  assert.deepEqual([first.ok, second.ok], [1, 0]);
  program.child.kill();
  await program.ended;
});

test("a module that is loaded ahead finds no trace of the rehearsal", async () => {
  const module = `${taskHead}
    const known = Reflect.ownKeys(globalThis).map(String).filter((key) => key.includes("helmr"));
    const handlers = process.listenerCount("uncaughtException") + process.listenerCount("beforeExit");
    export const subject = task({ id: "t", sandbox: sbx, run: async () => ({ known, handlers }) });`;
  using guest = new Guest({ "tasks/a.ts": module });
  const [program] = await preload(guest, "tasks/a.ts");
  assert.deepEqual((await start(guest, program, "tasks/a.ts")).output, { known: [], handlers: 0 });
});

test("a module that throws ahead is told, and ends nothing by itself", async () => {
  using guest = new Guest({ "tasks/a.ts": "throw new TypeError('not now')" });
  const [program, { ok, text }] = await preload(guest, "tasks/a.ts");
  assert.deepEqual([ok, text], [0, "TypeError: not now"]);
  assert.equal(program.child.exitCode, null);
  program.child.kill();
  await program.ended;
});

test("a failure of a task that was loaded ahead is the run's", async () => {
  using guest = new Guest(taskWith("async () => { throw new Error('at work') }"));
  const [program] = await preload(guest, "tasks/task.ts");
  const { code, outcome } = await start(guest, program, "tasks/task.ts");
  assert.deepEqual([code, outcome?.errorMessage], [1, "at work"]);
});
