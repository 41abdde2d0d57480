// What a run leaves in its workspace, and how two of them differ.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import type { RunSnapshot } from "@helmr/sdk";
import { client, dataDir, deployed, helmr, printed, run, runEvents } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";
import { until } from "./lib/own.ts";

const secret = `sk-${randomBytes(24).toString("base64url")}`;

const files: Files = {
  "tasks/a.ts": `import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const made = image("i")
  .from("node:24-bookworm-slim")
  .run(["sh", "-c", "mkdir -p /workspace/src/old && cd /workspace && printf 'one\\\\ntwo\\\\n' > change.txt && " +
    "echo gone > delete.txt && echo kept > keep.txt && echo deep > src/old/deep.txt"]);
const box = sandbox("s").image(made);

export const works = task({
  id: "works",
  sandbox: box,
  run: async () => {
    fs.writeFileSync("added.txt", "hello\\n");
    fs.writeFileSync("passing.txt", "soon gone\\n");
    fs.rmSync("passing.txt");
    fs.writeFileSync("binary", Buffer.from([0, 1, 2]));
    fs.writeFileSync("change.txt", "one\\n2\\n");
    fs.rmSync("delete.txt");
    fs.symlinkSync("added.txt", "link");
    fs.writeFileSync("tool.sh", "#!/bin/sh\\n", { mode: 0o755 });
    fs.linkSync("tool.sh", "twin.sh");
    fs.mkdirSync("new/empty", { recursive: true });
    execFileSync("mv", ["src/old", "src/moved"]);
    return fs.readdirSync(".").length;
  },
});

export const differs = task({
  id: "differs",
  sandbox: box,
  run: async () => {
    fs.writeFileSync("added.txt", "hello\\nagain\\n");
    fs.writeFileSync("renamed", Buffer.from([0, 1, 2]));
    fs.writeFileSync("tool.sh", "#!/bin/sh\\n", { mode: 0o644 });
  },
});

export const looks = task({ id: "looks", sandbox: box, run: async () => fs.readdirSync(".").length });

const listed = () => (fs.readdirSync(".", { recursive: true }) as string[]).sort();

export const finds = task({
  id: "finds",
  sandbox: box,
  run: async () => ({
    listed: listed(),
    change: fs.readFileSync("change.txt", "utf8"),
    binary: fs.readFileSync("binary", "hex"),
    link: fs.readlinkSync("link"),
    mode: fs.statSync("tool.sh").mode & 0o777,
    isLinked: fs.statSync("tool.sh").ino === fs.statSync("twin.sh").ino,
  }),
});

export const empties = task({
  id: "empties",
  sandbox: box,
  run: async () => void execFileSync("find", [".", "-mindepth", "1", "-delete"]),
});

export const lists = task({ id: "lists", sandbox: box, run: async () => listed() });

export const breaks = task({
  id: "breaks",
  sandbox: box,
  run: async () => {
    fs.writeFileSync("half.txt", "half\\n");
    throw new Error("no further");
  },
});

export const decides = task({
  id: "decides",
  sandbox: box,
  run: async (ctx) => {
    fs.writeFileSync("before.txt", "the same in both\\n");
    const { approved } = await ctx.wait.human<{ approved: boolean }>({ displayText: "Go on?" });
    fs.writeFileSync(approved ? "approved.txt" : "refused.txt", approved + "\\n");
    fs.writeFileSync("run.txt", ctx.run.id + "\\n");
  },
});

export const names = task({
  id: "names",
  sandbox: box,
  run: async (payload: { name: string }, _ctx) => fs.writeFileSync(payload.name, "of " + payload.name),
});

export const large = task({
  id: "large",
  sandbox: box,
  run: async () => {
    for (let i = 0; i < 300; i++) fs.writeFileSync("f" + i, Buffer.alloc(20_000, String(i)));
  },
});

export const keeps = task({
  id: "keeps",
  sandbox: box,
  secrets: { KEPT: { file: "conf/kept" }, NAMED: { env: "NAMED" } },
  run: async () => {
    fs.writeFileSync("length.txt", String(fs.readFileSync("conf/kept", "utf8").length));
    return process.env.NAMED?.length;
  },
});
`,
};

const deployment = await deployed(project({ after }, files));
const worked = await run(deployment, "works");

const lines = async (...args: string[]): Promise<string[]> =>
  (await printed(["diff", ...args])).trimEnd().split("\n");

async function finished(task: string, workspaceId?: string): Promise<RunSnapshot> {
  const options = { timeoutSeconds: 300, ...(workspaceId !== undefined && { workspaceId }) };
  const { run } = await client.sessions.startAndWait(task, undefined, options);
  assert.ok(run.isTerminal);
  assert.ok(run.isSuccess || task === "breaks", JSON.stringify(run.error));
  return run;
}

test("a run shows what it changed and nothing of its image", async () => {
  assert.equal(worked.status, "succeeded", JSON.stringify(worked.error));
  assert.deepEqual(await lines(worked.id), [
    "A added.txt",
    "A binary",
    "M change.txt",
    "D delete.txt",
    "A link",
    "A new/empty/",
    "A src/moved/deep.txt",
    "D src/old",
    "A tool.sh",
    "A twin.sh",
  ]);
  const [captured, ...more] = (await runEvents(worked.id)).filter(
    ({ kind }) => kind === "workspace.version_captured",
  );
  assert.equal(more.length, 0);
  assert.equal(captured?.attributes.kind, "user");
  assert.equal(captured?.attributes.version_id, (await client.runs.diff(worked)).toVersionId);
});

test("what was captured is read back byte by byte", async () => {
  const { entries } = await client.runs.diff(worked, { patch: true });
  const patches = new Map(entries.map(({ path, patch }) => [path, patch]));
  assert.equal(
    patches.get("change.txt"),
    "--- /dev/null\n+++ b/change.txt\n@@ -0,0 +1,2 @@\n+one\n+2\n",
  );
  assert.match(patches.get("src/moved/deep.txt") ?? "", /^\+deep$/m);
  const entry = (path: string) => entries.find((one) => one.path === path);
  assert.equal(entry("binary")?.isBinary, true);
  assert.equal(entry("binary")?.sizeAfter, 3);
  assert.equal(entry("link")?.type, "symlink");
  assert.equal(entry("tool.sh")?.modeAfter, 0o755);
  assert.match(patches.get("twin.sh") ?? "", /^\+#!\/bin\/sh$/m);
  assert.match(await printed(["diff", worked.id, "--patch"]), /^A binary\nBinary files differ$/m);
  assert.match(await printed(["diff", worked.id, "--stat"]), /^10 changed, \+\d+, -0$/m);
});

test("two runs are compared by their newest versions", async () => {
  const other = await run(deployment, "differs");
  assert.deepEqual(await lines(worked.id, other.id), [
    "M added.txt",
    "M change.txt",
    "A delete.txt",
    "D link",
    "D new/empty/",
    "R binary → renamed",
    "D src/moved/deep.txt",
    "A src/old",
    "M tool.sh (mode 0755 → 0644)",
    "D twin.sh",
  ]);
  assert.match(await printed(["diff", worked.id, other.id, "--patch"]), /^ hello\n\+again$/m);
  const told = JSON.parse(await printed(["diff", worked.workspaceId, "--json"]));
  assert.equal(told.from_version_id, null);
  assert.equal(told.entries.length, 10);
});

test("an untouched workspace has no version", async () => {
  const looked = await run(deployment, "looks");
  assert.equal(await printed(["diff", looked.id]), "");
  assert.equal((await client.runs.diff(looked)).toVersionId, undefined);
  assert.equal((await lines(looked.id, worked.id)).length, 10);
});

test("the next run in a workspace begins with what the last one left", async () => {
  await printed(["deployment", "promote", deployment]); // which sessions are started with
  const { workspaceId } = await finished("works");
  const next = await finished("finds", workspaceId);
  assert.deepEqual(next.output, {
    listed: [
      ...["added.txt", "binary", "change.txt", "keep.txt", "link", "new", "new/empty", "src"],
      ...["src/moved", "src/moved/deep.txt", "tool.sh", "twin.sh"],
    ],
    change: "one\n2\n",
    binary: "000102",
    link: "added.txt",
    mode: 0o755,
    isLinked: true,
  });
  assert.deepEqual((await client.runs.diff(next)).entries, []);

  const broken = await finished("breaks", workspaceId);
  assert.equal(broken.status, "failed");
  await finished("empties", workspaceId);
  assert.deepEqual((await finished("lists", workspaceId)).output, []);
});

test("what a failed run left can be looked at", async () => {
  const broke = await run(deployment, "breaks");
  assert.equal(broke.status, "failed");
  assert.deepEqual(await lines(broke.id), ["A half.txt"]);
  assert.equal(await printed(["diff", broke.workspaceId]), "");
});

test("a workspace of many files is stored in packs and listed page by page", async () => {
  const ended = await run(deployment, "large");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.equal((await lines(ended.id)).length, 300);
});

test("branches of a parked run are compared side by side", async () => {
  const started = await client.tasks.trigger("decides", undefined, {
    deploymentId: deployment,
  });
  await until("a parked run", async () => (await client.runs.waits(started))[0]?.suspension === "parked");
  assert.deepEqual(await lines(started.id), ["A before.txt"]);
  const answers = ['{"approved":true}', '{"approved":false}'];
  const forked = await printed(["fork", started.id, ...answers.flatMap((a) => ["--answer-json", a])]);
  const [yes, no] = forked.trimEnd().split("\n").map((line) => line.split("\t")[0] as string);
  for (const id of [yes, no]) await printed(["run", "wait", id as string]);
  assert.deepEqual(await lines(yes as string, no as string), [
    "D approved.txt",
    "A refused.txt",
    "M run.txt",
  ]);
  const patch = await printed(["diff", yes as string, no as string, "--patch"]);
  assert.ok(patch.includes(`-${yes}\n+${no}\n`), patch);
  assert.deepEqual(await lines(started.id), ["A before.txt"]);
  await client.runs.cancel(started);
});

test("secrets are in no version", async () => {
  await printed(["secret", "set", "KEPT"], { input: secret });
  await printed(["secret", "set", "NAMED"], { input: secret });
  const kept = await run(deployment, "keeps");
  assert.equal(kept.status, "succeeded", JSON.stringify(kept.error));
  assert.deepEqual(await lines(kept.id), ["A length.txt"]);
  assert.ok(!JSON.stringify(await client.runs.diff(kept, { patch: true })).includes(secret));
});

test("what is stored tells nothing without the key", async () => {
  const name = `name-${randomBytes(8).toString("hex")}`;
  const ended = await run(deployment, "names", { name });
  assert.deepEqual(await lines(ended.id), [`A ${name}`]);
  const { status, stdout } = spawnSync("grep", ["-rl", name, `${dataDir}/store`]);
  assert.deepEqual([status, stdout.toString()], [1, ""]);
});

test("what is neither a run nor a workspace is said to be neither", async () => {
  const { code, stderr } = await helmr(["diff", "01981f4e-0000-7000-8000-000000000000"]);
  assert.equal(code, 1);
  assert.match(stderr, /no run and no workspace/);
});
