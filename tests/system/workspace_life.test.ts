// Workspaces from their making to their end, as people and programs do it: the client, and the
// command line beside it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { HelmrApiError } from "@helmr/sdk";
import type { WorkspaceHandle } from "@helmr/sdk";
import { client, deployed, helmr, printed } from "./lib/helmr.ts";
import { patience } from "./lib/engine.ts";
import { until } from "./lib/own.ts";
import { project } from "./lib/project.ts";

const files = {
  "tasks/a.ts": `import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("life").image(image("i").from("node:24-bookworm-slim"));

export const notes = task({
  id: "notes",
  sandbox: box,
  run: async (payload: { text: string }, _ctx) => {
    const before = fs.existsSync("notes.txt") ? fs.readFileSync("notes.txt", "utf8") : "";
    fs.writeFileSync("notes.txt", before + payload.text);
    return before;
  },
});

export const naps = task({
  id: "naps",
  sandbox: box,
  run: async () => new Promise((resolve) => setTimeout(resolve, 600_000)),
});
`,
};

const deployment = await deployed(project({ after }, files));
await printed(["deployment", "promote", deployment]); // which sessions are started with

const made: string[] = [];

async function create(more: object = {}): Promise<WorkspaceHandle> {
  const { workspace } = await client.workspaces.create({ sandboxId: "life", ...more });
  made.push(workspace.id);
  return client.workspaces.open(workspace);
}

const text = async (workspace: WorkspaceHandle, path: string): Promise<string> =>
  new TextDecoder().decode(await workspace.files.read(path));

/** A run that adds to the notes; what was there before. */
async function note(workspace: WorkspaceHandle, added: string): Promise<unknown> {
  const { run } = await client.sessions.start("notes", { text: added }, { workspaceId: workspace.id });
  const ended = await client.runs.wait(run.id, { timeoutMs: patience(120_000) });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  return ended.output;
}

/** Nothing here takes longer. */
const soon = (): { signal: AbortSignal } => ({ signal: AbortSignal.timeout(patience(120_000)) });

const refused = (code: string) => (error: unknown) =>
  error instanceof HelmrApiError && error.code === code;

test("a workspace is made once, found by its name and tags, and shown by the command line", async () => {
  const name = `life-${process.pid}`;
  const first = await create({ externalId: name, tags: ["life"], metadata: { of: "a test" } });
  const again = await client.workspaces.create({
    sandboxId: "life",
    externalId: name,
    tags: ["life"],
    metadata: { of: "a test" },
  });
  assert.deepEqual([again.workspace.id, again.isCached], [first.id, true]);
  const [found] = await client.workspaces.list({ externalId: name });
  assert.equal(found?.id, first.id);
  assert.ok((await client.workspaces.list({ tag: "life" })).some(({ id }) => id === first.id));
  assert.match(await printed(["workspace", "list", "--tag", "life"]), new RegExp(`^${first.id}\tactive\tlife\t`, "m"));
  const shown = JSON.parse(await printed(["workspace", "get", first.id, "--json"]));
  assert.deepEqual(shown.metadata, { of: "a test" });
  await printed(["workspace", "update", first.id, "--tag", "renamed"]);
  assert.deepEqual((await first.retrieve()).tags, ["renamed"]);
  assert.match(await printed(["workspace", "open", first.id]), new RegExp(`/workspaces/${first.id}\n$`));
});

test("the command line makes one, too, and says where it is", async () => {
  const out = await printed(["workspace", "create", "--sandbox", "life", "--tag", "cli"]);
  const id = /^workspace_id: (.*)$/m.exec(out)?.[1] ?? "";
  made.push(id);
  assert.match(out, /^state: active$/m);
  assert.match(out, /^sandbox_id: life$/m);
  assert.match(out, new RegExp(`^console_url: .*/workspaces/${id}$`, "m"));
  const missing = await helmr(["workspace", "create", "--sandbox", "nothing-like-it"]);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /sandbox_not_deployed/);
});

test("files are written, a run goes on with them, and every step is a version", async () => {
  const workspace = await create();
  assert.equal((await workspace.retrieve()).currentVersionId, undefined);
  const written = await workspace.files.write("notes.txt", "by hand\n");
  assert.equal((await workspace.retrieve()).currentVersionId, written.versionId);
  assert.equal(await note(workspace, "by a run\n"), "by hand\n");
  assert.equal(await text(workspace, "notes.txt"), "by hand\nby a run\n");

  const versions = await workspace.versions.list({ kind: "user" });
  assert.deepEqual(
    versions.map(({ isCurrent }) => isCurrent),
    [true, false],
  );
  assert.equal(versions[0]?.parentId, written.versionId);
  assert.equal(versions[1]?.id, written.versionId);
  const diff = await workspace.diff({ patch: true });
  assert.match(diff.entries[0]?.patch ?? "", /^\+by a run$/m);

  const restored = (await printed(["workspace", "restore", workspace.id, written.versionId])).trim();
  assert.equal(await text(workspace, "notes.txt"), "by hand\n");
  const lines = (await printed(["workspace", "versions", workspace.id])).trim().split("\n");
  assert.equal(lines.length, 3);
  assert.match(lines[0] ?? "", new RegExp(`^${restored}\tuser\tready\t\\d+\t[^\t]+\tcurrent$`));
});

test("a branch begins with a version and goes its own way, also when its source is gone", async () => {
  const source = await create();
  const { versionId } = await source.files.write("shared.txt", "the same\n");
  const branch = await create({ fromVersionId: versionId });
  assert.equal((await branch.retrieve()).forkedFrom, source.id);
  await branch.files.write("own.txt", "the branch's\n");
  assert.deepEqual(
    (await source.files.list("/")).map(({ name }) => name),
    ["shared.txt"],
  );
  await source.delete();
  await until("a deleted source", async () => (await source.retrieve()).state === "deleted");
  assert.equal(await text(branch, "shared.txt"), "the same\n");
  assert.equal(await note(branch, "a run\n"), "");
  await assert.rejects(source.files.read("shared.txt"), HelmrApiError);
});

test("an archived workspace is read, and nothing writes to it", async () => {
  const workspace = await create();
  await workspace.files.write("a.txt", "kept\n");
  assert.equal(await printed(["workspace", "archive", workspace.id]), `${workspace.id}\tarchived\n`);
  assert.equal(await text(workspace, "a.txt"), "kept\n");
  await assert.rejects(workspace.files.write("a.txt", "no\n"), refused("workspace_not_active"));
  const options = { workspaceId: workspace.id };
  await assert.rejects(
    client.sessions.start("notes", { text: "no" }, options),
    refused("workspace_not_active"),
  );
  await assert.rejects(workspace.exec(["true"]), refused("workspace_not_active"));
  await printed(["workspace", "archive", workspace.id, "--undo"]);
  await workspace.files.write("a.txt", "changed\n");
});

test("a command works in the workspace, and stopping keeps what it made", async () => {
  const workspace = await create();
  const command = await workspace.exec(["sh", "-c", "cat > in.txt; echo done; echo bad >&2; exit 3"]);
  await command.stdin.write("from outside\n");
  await command.stdin.close();
  const ended = await command.wait(soon());
  assert.deepEqual([ended.state, ended.exitCode], ["exited", 3]);
  const said = async (stream: typeof command.stdout): Promise<string> => {
    let all = "";
    for await (const { data } of stream.stream(soon())) all += new TextDecoder().decode(data);
    return all;
  };
  assert.equal(await said(command.stdout), "done\n");
  assert.equal(await said(command.stderr), "bad\n");
  await workspace.stop();
  await until("an unmounted workspace", async () => (await workspace.retrieve()).mount === undefined);
  assert.equal(await text(workspace, "in.txt"), "from outside\n");
});

test("a command begins in the mount path, or where it is told to", async () => {
  const workspace = await create();
  const pwd = (...flags: string[]): Promise<string> =>
    printed(["workspace", "exec", workspace.id, ...flags, "--", "pwd"]);
  assert.equal(await pwd(), "/workspace\n");
  assert.equal(await pwd("--cwd", "/"), "/\n");
  await workspace.stop();
});

test("a run and a command exclude each other", async () => {
  const workspace = await create();
  const options = { workspaceId: workspace.id };
  const { run } = await client.sessions.start("naps", {}, options);
  await assert.rejects(workspace.exec(["true"]), refused("workspace_writer_active"));
  await assert.rejects(workspace.files.write("a", "b"), refused("workspace_writer_active"));
  await assert.rejects(workspace.delete(), refused("workspace_writer_active"));
  await client.runs.cancel(run.id, { force: true });
  await client.runs.wait(run.id, { timeoutMs: patience(120_000) });
  const command = await workspace.exec(["sleep", "1000"]);
  await assert.rejects(
    client.sessions.start("notes", { text: "no" }, options),
    refused("workspace_writer_active"),
  );
  await until("a running command", async () => (await command.retrieve()).state === "running");
  await command.terminate({ signal: "KILL" });
  const { state, signal } = await command.wait(soon());
  assert.deepEqual([state, signal], ["exited", "KILL"]);
});

test("a workspace that is mounted is deleted with its programs", async () => {
  const workspace = await create();
  const command = await workspace.exec(["sleep", "1000"]);
  await until("a running command", async () => (await command.retrieve()).state === "running");
  assert.equal(
    await printed(["workspace", "delete", workspace.id, "--yes"]),
    `${workspace.id} deleted\n`,
  );
  await until("a deleted workspace", async () => (await workspace.retrieve()).state === "deleted");
  assert.notEqual((await command.retrieve()).state, "running");
});

test("every workspace that was made can be deleted, and the lists are empty of them", async () => {
  for (const id of made) await client.workspaces.delete(id);
  for (const id of made)
    await until("a deleted workspace", async () =>
      (await client.workspaces.retrieve(id)).state === "deleted");
  const left = new Set((await client.workspaces.list({ limit: 200 })).map(({ id }) => id));
  assert.deepEqual(
    made.filter((id) => left.has(id)),
    [],
  );
});
