// A workspace with very many files: a version costs what was changed since the last one, a branch of
// it next to nothing, and reading it needs no sandbox. Half of the files are those of real packages,
// again and again with other contents. LARGE_FILES and LARGE_MB say how many files and how much there is.
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { gzipSync } from "node:zlib";
import type { RunSnapshot } from "@helmr/sdk";
import { client, dataDir, deployed, printed, runEvents } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const files = Number(process.env.LARGE_FILES ?? 5000);
const bytes = Number(process.env.LARGE_MB ?? 40) * 1_000_000;
const timeoutMs = 3_600_000;

/* As npm has laid them out here. */
const packages = ["ajv", "fast-uri", "nanoid", "postcss", "react", "undici-types"];
const modules = join(import.meta.dirname, "../../node_modules");
const real = packages.flatMap((name) =>
  readdirSync(join(modules, name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => [path.slice(modules.length + 1), readFileSync(path, "base64")]),
);

const source = `import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { dirname } from "node:path";
import { gunzipSync } from "node:zlib";
import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"))
  .resources({ cpu: 2, memory: "3GiB", disk: "4GiB" });
const maxDuration = "1h";

const words = "export const value = require of function return module import default class ".repeat(40);
const made = new Set<string>();

function write(path: string, contents: Buffer | string): void {
  const folder = dirname(path);
  if (!made.has(folder)) fs.mkdirSync(folder, { recursive: true });
  made.add(folder);
  fs.writeFileSync(path, contents);
}

/* The packages in one directory of each copy, every file with a line of its own. */
function copyPackages(files: number): string[] {
  const packed = fs.readFileSync(new URL("../packages.json.gz", import.meta.url));
  const real: [string, string][] = JSON.parse(gunzipSync(packed).toString());
  const contents = real.map(([path, text]): [string, Buffer] => [path, Buffer.from(text, "base64")]);
  return Array.from({ length: files }, (_, at) => {
    const copy = Math.floor(at / contents.length);
    const [path, text] = contents[at % contents.length] as [string, Buffer];
    const target = \`app-\${copy}/node_modules/\${path}\`;
    write(target, Buffer.concat([text, Buffer.from(\`\\n// \${copy}\\n\`)]));
    return target;
  });
}

/* Twenty files in each of four folders, no two alike. */
const parts = ["lib", "dist/esm", "dist/cjs", "test"];

function generate(files: number, bytes: number): string[] {
  const each = Math.floor(bytes / files);
  return Array.from({ length: files }, (_, at) => {
    const path = \`node_modules/package-\${Math.floor(at / 20)}/\${parts[at % 4]}/file-\${at % 20}.js\`;
    let text = "";
    for (let part = 0; text.length < each; part++)
      text += createHash("sha512").update(\`\${at} \${part}\`).digest("base64") + words.slice(0, 120 + (at % 50));
    write(path, text.slice(0, each));
    return path;
  });
}

export const makes = task({
  id: "makes",
  sandbox: box,
  maxDuration,
  run: async ({ files, bytes }: { files: number; bytes: number }, _ctx) => {
    const half = Math.floor(files / 2);
    const copied = copyPackages(half);
    const size = copied.reduce((sum, path) => sum + fs.statSync(path).size, 0);
    const all = [...copied, ...generate(files - half, bytes - size)];
    return Array.from({ length: 10 }, (_, i) => all[Math.floor((files * i) / 10)]);
  },
});

export const touches = task({
  id: "touches",
  sandbox: box,
  maxDuration,
  run: async ({ paths, text }: { paths: string[]; text: string }, _ctx) => {
    for (const path of paths) fs.appendFileSync(path, text);
    return fs.readFileSync(paths[0] as string, "utf8").slice(-text.length);
  },
});

export const reads = task({
  id: "reads",
  sandbox: box,
  maxDuration,
  run: async ({ paths }: { paths: string[] }, _ctx) => paths.map((path) => fs.readFileSync(path, "utf8").slice(-30)),
});
`;

const deployment = await deployed(
  project({ after }, {
    "tasks/a.ts": source,
    "packages.json.gz": gzipSync(JSON.stringify(real)),
  }),
);

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

/** The ten files that are changed, and the workspace they are in. */
let paths: string[] = [];
let workspaceId = "";

test("a version after ten changes reads and stores those ten", async () => {
  await printed(["deployment", "promote", deployment]); // which sessions are started with
  const made = await finished("makes", { files, bytes });
  workspaceId = made.workspaceId;
  paths = made.output as string[];
  const first = await captured(made.id);
  assert.equal(first.files_read, files);
  assert.ok(Number(first.size_bytes) > 0.99 * bytes, `${first.size_bytes} bytes are not ${bytes}`);
  const before = stored();

  let text = "// one\n";
  const touched = await finished("touches", { paths, text }, workspaceId);
  assert.equal(touched.output, text);
  const second = await captured(touched.id);
  assert.equal(second.files_read, 10);
  assert.equal(second.entries, first.entries);
  assert.equal(second.size_bytes, Number(first.size_bytes) + 10 * text.length);
  assert.ok(stored() - before < 2_000_000, "ten small changes took over 2 MB of the store");

  text = "// once more\n";
  const third = await captured((await finished("touches", { paths, text }, workspaceId)).id);
  assert.equal(third.files_read, 10);
  assert.ok(stored() - before < 4_000_000, "twenty small changes took over 4 MB of the store");
});

test("a branch of it adds next to nothing to the store", async () => {
  const { currentVersionId } = await client.workspaces.retrieve(workspaceId);
  assert.ok(currentVersionId);
  const before = stored();
  const { workspace } = await client.workspaces.create({
    sandboxId: "s",
    fromVersionId: currentVersionId,
  });
  assert.ok(stored() - before < 10_000, `a branch took ${stored() - before} bytes of the store`);

  const text = "// of the branch\n";
  const touched = await finished("touches", { paths, text }, workspace.id);
  assert.equal((await captured(touched.id)).files_read, 10);
  assert.ok(stored() - before < 2_000_000, "ten changes of a branch took over 2 MB of the store");
  const read = await finished("reads", { paths }, workspaceId);
  for (const end of read.output as string[]) assert.ok(end.endsWith("// one\n// once more\n"), end);
  assert.equal((await captured(read.id)).files_read, 0);
});

test("it is listed, looked at and read without a sandbox", async () => {
  const workspace = client.workspaces.open(workspaceId);
  const path = paths[0] as string;
  const names = (await workspace.files.list("/app-0/node_modules")).map(({ name }) => name);
  assert.deepEqual(names.toSorted(), packages.toSorted());

  const listed = await workspace.files.list("/", { recursive: true });
  const there = listed.filter(({ type }) => type === "file");
  assert.equal(there.length, files);
  const { sizeBytes, type } = await workspace.files.stat(path);
  assert.equal(type, "file");
  const contents = await workspace.files.read(path);
  assert.equal(contents.length, sizeBytes);
  const copied = Buffer.from(real[0]?.[1] as string, "base64");
  assert.equal(Buffer.from(contents).toString(), `${copied.toString()}\n// 0\n// one\n// once more\n`);
  // One that had been made for it would be there until it is idle for long enough.
  assert.equal((await workspace.retrieve()).mount, undefined);
});
