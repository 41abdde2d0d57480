// What a sandbox holds right now, compared while its programs write, go on, and are killed.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { HelmrApiError } from "@helmr/sdk";
import type { Diff, WorkspaceHandle } from "@helmr/sdk";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const files = {
  "tasks/a.ts": `import { appendFileSync, writeFileSync } from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("box").image(image("i").from("node:24-bookworm-slim"));

export const writes = task({
  id: "writes",
  sandbox: box,
  run: async (_payload: unknown, ctx) => {
    for (let i = 1; !ctx.signal.aborted; i++) {
      appendFileSync("all", i + "\\n");
      writeFileSync("first", String(i));
      writeFileSync("second", String(i));
      await new Promise((done) => setTimeout(done, 5));
    }
  },
});
`,
};

/* Each number into three files, one after the other, for as long as it is let. */
const writer = `
i=0
while :; do
  i=$((i + 1))
  echo $i >> all
  echo $i > first
  echo $i > second
  sleep 0.01
done
`;

const many = 450;

suite("what a sandbox holds right now", () => {
  const scope = declaredScope();
  let own: Own;

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WORKSPACE_IDLE_TIMEOUT: "2m" } });
    await own.printed(["deployment", "promote", await own.deployed(project(scope, files))]);
  });

  async function create(): Promise<WorkspaceHandle> {
    const made = await own.client.workspaces.create({ sandboxId: "box" });
    return own.client.workspaces.open(made.workspace);
  }

  /** A command that goes on in the mounted workspace. */
  async function begin(workspace: WorkspaceHandle, script: string): Promise<void> {
    const exec = await workspace.exec(["sh", "-c", script]);
    await until("a command that runs", async () => (await exec.retrieve()).state === "running");
  }

  const lines = async (workspace: WorkspaceHandle, versionId: string, path: string): Promise<number[]> => {
    const bytes = await workspace.files.read(path, { source: "version", versionId });
    return Buffer.from(bytes).toString().split("\n").filter(Boolean).map(Number);
  };

  /** What the version holds is of one moment between two steps of the writer; its last number. */
  async function whole(workspace: WorkspaceHandle, versionId: string | undefined): Promise<number> {
    assert.ok(versionId);
    const all = await lines(workspace, versionId, "all");
    const [first] = await lines(workspace, versionId, "first");
    const [second] = await lines(workspace, versionId, "second");
    assert.deepEqual(all, all.map((_, i) => i + 1));
    /* A file that was opened anew is empty until it is written. */
    if (first !== undefined) assert.ok(all.length - first <= 1 && all.length >= first, `${all.length} ${first}`);
    if (first !== undefined && second !== undefined) assert.ok(first - second <= 1 && first >= second);
    return all.length;
  }

  const paths = ({ entries }: Diff): string[] => entries.map(({ path }) => path);

  const refused = (error: unknown): boolean =>
    error instanceof HelmrApiError && error.status === 409 && error.code === "workspace_not_mounted";

  test("is compared while a command writes, and the command goes on", async () => {
    const workspace = await create();
    await begin(workspace, writer);
    await until("the first numbers", async () => paths(await workspace.diff({ to: "live" })).includes("second"));
    const diff = await workspace.diff({ to: "live", patch: true });
    assert.deepEqual(paths(diff), ["all", "first", "second"]);
    assert.equal(diff.fromVersionId, undefined);
    assert.match(diff.entries[0]?.patch ?? "", /^\+1\n\+2\n/m);
    const before = await whole(workspace, diff.toVersionId);

    await until("more numbers", async () => {
      const { toVersionId } = await workspace.diff({ to: "live" });
      return (await whole(workspace, toVersionId)) > before + 5;
    });
    assert.equal((await workspace.retrieve()).currentVersionId, undefined);

    const said = await own.helmr(["diff", workspace.id, "--to", "live"]);
    assert.deepEqual([said.code, said.stdout], [0, "A all\nA first\nA second\n"]);

    /* Of the end nothing is missing, and nothing was captured in between that counts. */
    await own.printed(["workspace", "stop", workspace.id]);
    await until("no mount", async () => (await workspace.retrieve()).mount === undefined);
    const { currentVersionId } = await workspace.retrieve();
    assert.ok((await whole(workspace, currentVersionId)) > before);
    await assert.rejects(workspace.diff({ to: "live" }), refused);
    const unmounted = await own.helmr(["diff", workspace.id, "--to", "live"]);
    assert.notEqual(unmounted.code, 0);
    assert.match(unmounted.stderr, /in no sandbox now/);
  });

  test("comes in pages of one moment", async () => {
    const workspace = await create();
    const script = `mkdir many; for i in $(seq 1000 ${999 + many}); do echo $i > many/$i; done`;
    assert.equal((await (await workspace.exec(["sh", "-c", script])).wait()).exitCode, 0);
    await begin(workspace, "cd many; while :; do for i in *; do mv $i 0$i; done; done");
    for (let round = 0; round < 3; round++) {
      const found = paths(await workspace.diff({ to: "live" }));
      assert.equal(found.length, many);
      assert.equal(new Set(found.map((path) => path.replace(/^many\/0*/, ""))).size, many);
    }
    const printed = await own.printed(["diff", workspace.id, "--to", "live"]);
    assert.equal(printed.trim().split("\n").length, many);
  });

  test("is compared while a run works", async () => {
    const { id } = await own.client.tasks.trigger("writes", {});
    const workspace = own.client.workspaces.open((await own.client.runs.retrieve(id)).workspaceId as string);
    await until("a run that works", async () => (await own.client.runs.retrieve(id)).status === "running");
    await until("the first numbers", async () => paths(await own.client.runs.diff(id, { to: "live" })).length === 3);
    const live = await own.client.runs.diff(id, { to: "live" });
    const before = await whole(workspace, live.toVersionId);
    const said = await own.helmr(["diff", id]);
    assert.deepEqual([said.code, said.stdout, said.stderr], [0, "A all\nA first\nA second\n", ""]);
    assert.deepEqual(paths(await own.client.runs.diff(id)), []);
    assert.deepEqual(paths(await workspace.diff({ to: "live" })), ["all", "first", "second"]);

    await own.client.runs.cancel(id);
    await until("the end", async () => (await own.client.runs.retrieve(id)).status === "cancelled");
    await assert.rejects(own.client.runs.diff(id, { to: "live" }), refused);
    const { toVersionId } = await own.client.runs.diff(id);
    assert.ok((await whole(workspace, toVersionId)) > before);
    assert.equal((await own.helmr(["diff", id])).stdout, "A all\nA first\nA second\n");
  });

  test("leaves nothing half when somebody is killed meanwhile", async () => {
    const [worker] = own.workers;
    assert.ok(worker);
    for (const victim of [own.server, worker]) {
      const workspace = await create();
      await begin(workspace, writer);
      await until("the first numbers", async () => paths(await workspace.diff({ to: "live" })).includes("second"));
      const asked = workspace.diff({ to: "live" }).then(
        ({ toVersionId }) => toVersionId,
        () => undefined,
      );
      await sleep(Math.random() * 100);
      await victim.end("SIGKILL");
      victim.start();
      await ready(own.place.url);
      await own.active();
      await asked;

      /* Whatever was published is whole; and after the server's death the programs go on. */
      for (const { id, kind } of await workspace.versions.list())
        if (kind === "system") assert.ok((await whole(workspace, id)) > 0);
      if (victim !== own.server) continue;
      const { toVersionId } = await workspace.diff({ to: "live" });
      const before = await whole(workspace, toVersionId);
      await until("more numbers", async () => {
        const later = await workspace.diff({ to: "live" });
        return (await whole(workspace, later.toVersionId)) > before;
      });
    }
  });
});
