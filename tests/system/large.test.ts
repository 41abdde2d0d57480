// A workspace with very many files: a version costs what was changed since the last one.
// LARGE_FILES and LARGE_MB say how many files and how much there is.
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import type { RunSnapshot } from "@helmr/sdk";
import { client, dataDir, deployed, printed, runEvents } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const files = Number(process.env.LARGE_FILES ?? 5000);
const bytes = Number(process.env.LARGE_MB ?? 40) * 1_000_000;
const timeoutMs = 3_600_000;

/* Packages as npm lays them out: twenty files each, in four folders, no two alike. */
const source = `import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"))
  .resources({ cpu: 2, memory: "3GiB", disk: "3GiB" });
const maxDuration = "1h";

const parts = ["lib", "dist/esm", "dist/cjs", "test"];
const pathOf = (at: number) =>
  \`node_modules/package-\${Math.floor(at / 20)}/\${parts[at % 4]}/file-\${at % 20}.js\`;

const words = "export const value = require of function return module import default class ".repeat(40);

export const makes = task({
  id: "makes",
  sandbox: box,
  maxDuration,
  run: async ({ files, bytes }: { files: number; bytes: number }, _ctx) => {
    const each = Math.floor(bytes / files);
    for (let at = 0; at < files; at++) {
      const path = pathOf(at);
      if (at % 20 < 4) fs.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      let text = "";
      for (let part = 0; text.length < each; part++)
        text += createHash("sha512").update(\`\${at} \${part}\`).digest("base64") + words.slice(0, 120 + (at % 50));
      fs.writeFileSync(path, text.slice(0, each));
    }
    return files;
  },
});

export const touches = task({
  id: "touches",
  sandbox: box,
  maxDuration,
  run: async ({ files, n, text }: { files: number; n: number; text: string }, _ctx) => {
    for (let i = 0; i < n; i++) fs.appendFileSync(pathOf(Math.floor((files * i) / n)), text);
    return fs.readFileSync(pathOf(0), "utf8").slice(-text.length);
  },
});

export const reads = task({
  id: "reads",
  sandbox: box,
  maxDuration,
  run: async ({ files, n }: { files: number; n: number }, _ctx) =>
    Array.from({ length: n }, (_, i) => fs.statSync(pathOf(Math.floor((files * i) / n))).size),
});
`;

const deployment = await deployed(project({ after }, { "tasks/a.ts": source }));

async function finished(task: string, payload: unknown, workspaceId?: string): Promise<RunSnapshot> {
  const options = workspaceId === undefined ? {} : { workspaceId };
  const started = await client.sessions.start(task, payload, options);
  const run = await client.runs.wait(started.run, { timeoutMs });
  assert.equal(run.status, "succeeded", JSON.stringify(run.error));
  return run;
}

/** What the event of the run's version says: of it and of what was read to make it. */
async function captured(id: string): Promise<Record<string, number>> {
  const events = await runEvents(id);
  const found = events.find(({ kind }) => kind === "workspace.version_captured");
  assert.ok(found, "no version was captured");
  return found.attributes as Record<string, number>;
}

function stored(folder = join(dataDir, "store")): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

test("a version after ten changes reads and stores those ten", async () => {
  await printed(["deployment", "promote", deployment]); // which sessions are started with
  const { workspaceId, id } = await finished("makes", { files, bytes });
  const first = await captured(id);
  assert.equal(first.files_read, files);
  const before = stored();

  let text = "// one\n";
  const touched = await finished("touches", { files, n: 10, text }, workspaceId);
  assert.equal(touched.output, text);
  const second = await captured(touched.id);
  assert.equal(second.files_read, 10);
  assert.equal(second.entries, first.entries);
  assert.equal(second.size_bytes, Number(first.size_bytes) + 10 * text.length);
  assert.ok(stored() - before < 2_000_000, "ten small changes took over 2 MB of the store");

  text = "// once more\n";
  const third = await captured((await finished("touches", { files, n: 10, text }, workspaceId)).id);
  assert.equal(third.files_read, 10);
  assert.ok(stored() - before < 4_000_000, "twenty small changes took over 4 MB of the store");

  const read = await finished("reads", { files, n: 10 }, workspaceId);
  const size = Math.floor(bytes / files) + "// one\n// once more\n".length;
  assert.deepEqual(read.output, Array.from({ length: 10 }, () => size));
  assert.equal((await captured(read.id)).files_read, 0);
});
