// Kills the server, the worker or both without warning while workspaces are captured, written to,
// restored and deleted. Whatever was acknowledged must read back bit for bit after every start.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { WorkspaceHandle } from "@helmr/sdk";
import { patience } from "./lib/engine.ts";
import { client, dataDir, deployed, printed, url } from "./lib/helmr.ts";
import { server, worker } from "./lib/halves.ts";
import { leftovers } from "./lib/host.ts";
import { ready, until } from "./lib/own.ts";
import { Part } from "./lib/part.ts";
import { project } from "./lib/project.ts";

const rounds = Number(process.env.WORKSPACE_KILLS ?? 5);
const deleteMs = 400;
const fileMax = 1024 * 1024;
const pathsOf = 6;
const victims: Part[][] = [[worker], [server], [server, worker]];

const source = {
  "tasks/a.ts": `import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("killed").image(image("i").from("node:24-bookworm-slim"));

export const fills = task({
  id: "fills",
  sandbox: box,
  run: async (payload: { path: string; seed: string; blocks: number }, _ctx) => {
    const all: Buffer[] = [];
    for (let i = 0; i < payload.blocks; i++)
      all.push(createHash("sha512").update(payload.seed + i).digest());
    fs.writeFileSync(payload.path, Buffer.concat(all));
  },
});
`,
};

const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;
const below = (n: number): number => Math.floor(Math.random() * n);
const somePath = (): string => `dir${below(2)}/file${below(pathsOf)}`;

/** What a version holds: paths and hashes. */
type Content = ReadonlyMap<string, string>;

/** A workspace, and every version of it that was ever acknowledged or seen. */
interface Known {
  readonly workspace: WorkspaceHandle;
  current: Content;
  currentId: string | undefined;
  readonly versions: Map<string, Content>;
}

/** Asks until the server is there to answer. */
async function insist<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      await ready(url);
    }
  }
}

async function contentOf(workspace: WorkspaceHandle, versionId: string): Promise<Content> {
  const from = { source: "version", versionId } as const;
  const found = new Map<string, string>();
  for (const { path, type } of await workspace.files.list("/", { ...from, recursive: true }))
    if (type === "file") found.set(path.replace(/^\//, ""), hash(await workspace.files.read(path, from)));
  return found;
}

const sorted = (content: Content): [string, string][] => [...content].sort();

/** One thing that is done to a workspace: asking for it, and what it holds when that is done. */
interface Action {
  readonly name: string;
  /** How long it takes, about: the kill comes somewhere in it. */
  readonly lastsMs: number;
  readonly becomes: Content;
  act(): Promise<unknown>;
}

function put({ workspace, current }: Known): Action {
  const [path, bytes] = [somePath(), randomBytes(1 + below(fileMax))];
  return {
    name: "put",
    lastsMs: 60,
    becomes: new Map(current).set(path, hash(bytes)),
    act: () => workspace.files.write(path, bytes),
  };
}

function upload({ workspace, current }: Known): Action {
  const folder = mkdtempSync(`${tmpdir()}/helmr-upload-`);
  const becomes = new Map(current);
  for (let i = 0; i < 20; i++) {
    const bytes = randomBytes(1 + below(fileMax));
    writeFileSync(`${folder}/part${i}`, bytes);
    becomes.set(`tree/part${i}`, hash(bytes));
  }
  const tar = execFileSync("tar", ["-cC", folder, "."], { maxBuffer: 64 * fileMax });
  rmSync(folder, { recursive: true });
  return { name: "upload", lastsMs: 500, becomes, act: () => workspace.files.upload("tree", tar) };
}

function run({ workspace, current }: Known): Action {
  const [seed, blocks, path] = [randomBytes(8).toString("hex"), 1 + below(4096), `run${below(3)}`];
  const all = Array.from({ length: blocks }, (_, i) =>
    createHash("sha512").update(seed + i).digest(),
  );
  return {
    name: "run",
    lastsMs: 2500,
    becomes: new Map(current).set(path, hash(Buffer.concat(all))),
    act: async () => {
      const options = { workspaceId: workspace.id };
      const started = await client.sessions.start("fills", { path, seed, blocks }, options);
      const ended = await insist(() =>
        client.runs.wait(started.run.id, { timeoutMs: patience(240_000) }),
      );
      assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    },
  };
}

function exec({ workspace, current }: Known): Action {
  const [path, word] = [`exec${below(3)}`, randomBytes(8).toString("hex")];
  const script = `for i in 1 2 3 4 5 6 7 8; do echo ${word}; done > ${path}`;
  return {
    name: "exec",
    lastsMs: 2500,
    becomes: new Map(current).set(path, hash(Buffer.from(`${word}\n`.repeat(8)))),
    act: async () => {
      const command = await workspace.exec(["sh", "-c", script]);
      const { state, exitCode } = await command.wait({ signal: AbortSignal.timeout(patience(60_000)) });
      assert.deepEqual([state, exitCode], ["exited", 0]);
      await workspace.stop();
      await until("an unmounted workspace", async () => (await workspace.retrieve()).mount === undefined);
      assert.equal((await workspace.retrieve()).state, "active");
    },
  };
}

function restore({ workspace, versions }: Known): Action {
  const [id, content] = pick([...versions]);
  const act = (): Promise<unknown> => workspace.versions.restore(id);
  return { name: "restore", lastsMs: 30, becomes: content, act };
}

const actions = [put, upload, run, run, exec, restore];

async function makeWorkspace(): Promise<Known> {
  const { workspace } = await insist(() => client.workspaces.create({ sandboxId: "killed" }));
  const handle = client.workspaces.open(workspace);
  return { workspace: handle, current: new Map(), currentId: undefined, versions: new Map() };
}

/** Until nobody writes to it; what was lost with a mount is given up. */
async function settle({ workspace }: Known): Promise<void> {
  await until("a workspace that nobody writes to", async () => {
    const { state, mount } = await insist(() => workspace.retrieve());
    if (state === "recovery_required" && mount === undefined)
      await insist(() => workspace.materialize());
    else if (mount?.state === "mounted") await insist(() => workspace.stop()).catch(() => undefined);
    return state === "active" && mount === undefined;
  });
}

async function check(known: Known): Promise<void> {
  for (const [id, content] of known.versions)
    assert.deepEqual(sorted(await contentOf(known.workspace, id)), sorted(content), `version ${id}`);
}

/** What was acknowledged is there; what was not is there whole or not at all. */
async function reconcile(known: Known, action: Action, acknowledged: boolean): Promise<void> {
  const { currentVersionId } = await known.workspace.retrieve();
  if (currentVersionId !== known.currentId) {
    assert.ok(currentVersionId);
    const content = await contentOf(known.workspace, currentVersionId);
    const isStill = JSON.stringify(sorted(content)) === JSON.stringify(sorted(known.current));
    /* A mount that ended before the command began may have left a version without a change. */
    if (acknowledged || !isStill)
      assert.deepEqual(sorted(content), sorted(action.becomes), action.name);
    known.current = content;
    known.currentId = currentVersionId;
    known.versions.set(currentVersionId, content);
  }
  if (acknowledged)
    assert.deepEqual(sorted(known.current), sorted(action.becomes), `${action.name} was lost`);
}

async function killWithin(ms: number): Promise<void> {
  await sleep(Math.random() * ms);
  const killed = pick(victims);
  await Promise.all(killed.map((one) => one.end("SIGKILL")));
  killed.forEach((one) => one.start());
  await ready(url);
}

async function perform(known: Known): Promise<string> {
  const action = known.versions.size === 0 ? put(known) : pick(actions)(known);
  const done = action.act().then(
    () => true,
    () => false,
  );
  await killWithin(action.lastsMs);
  const acknowledged = await done;
  await settleRuns(known);
  await settle(known);
  await reconcile(known, action, acknowledged);
  return `${action.name}${acknowledged ? "" : " (not acknowledged)"}`;
}

/** A run that nobody waits for any more goes on nevertheless. */
async function settleRuns({ workspace }: Known): Promise<void> {
  const live = await insist(() => client.runs.list({ status: "live" }));
  for (const run of live)
    if (run.workspaceId === workspace.id)
      await insist(() => client.runs.wait(run.id, { timeoutMs: patience(240_000) }));
}

async function destroy(known: Known): Promise<void> {
  const asked = known.workspace.delete().then(
    () => true,
    () => false,
  );
  await killWithin(deleteMs);
  if (!(await asked)) await insist(() => known.workspace.delete());
  await until("a deleted workspace", async () =>
    (await insist(() => known.workspace.retrieve())).state === "deleted");
  assert.deepEqual(await known.workspace.versions.list(), []);
}

before(async () => {
  server.start();
  await ready(url);
  worker.start();
  const id = await deployed(project({ after }, source));
  await printed(["deployment", "promote", id]);
});

after(async () => {
  await worker.end("SIGTERM");
  await server.end("SIGTERM");
});

test(`${rounds} kills while workspaces change lose nothing that was acknowledged`, async (t) => {
  const all = [await makeWorkspace(), await makeWorkspace()];
  for (let round = 0; round < rounds; round++) {
    const known = pick(all);
    if (round % 7 === 6) {
      await destroy(known);
      all[all.indexOf(known)] = await makeWorkspace();
      t.diagnostic(`round ${round}: delete`);
    } else t.diagnostic(`round ${round}: ${await perform(known)}`);
    for (const one of all) await check(one);
  }
  for (const one of all) await check(one);
});

test("after all the kills the store is whole and nothing is left", async () => {
  assert.match(
    await printed(["store", "verify", "--data-dir", dataDir]),
    /^verified: [1-9]\d* objects.* 0 damaged$/m,
  );
  assert.equal(await worker.end("SIGTERM"), 0);
  assert.equal(await server.end("SIGTERM"), 0);
  assert.deepEqual(leftovers(dataDir), []);
});
