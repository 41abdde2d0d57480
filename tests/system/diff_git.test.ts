// Differences of two versions, held against what git says about the same two trees.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { gitDiff, gitPaths, hunksOf, shortened } from "./lib/git_diff.ts";
import { api, deployed, printed } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const root = new URL("../../", import.meta.url).pathname;
const place = fs.mkdtempSync(join(tmpdir(), "helmr-diff-"));
after(() => fs.rmSync(place, { recursive: true, force: true }));
const [before, now] = [join(place, "before"), join(place, "now")] as const;

/** Our own sources, and the same after all that people do to sources. */
function plant(): void {
  for (const folder of ["docs", "src/server", "src/http"])
    fs.cpSync(join(root, folder), join(before, folder), { recursive: true });
  fs.writeFileSync(join(before, "no newline"), "one\ntwo");
  fs.writeFileSync(join(before, "binary"), Buffer.from([0, 1, 2]));
  fs.cpSync(before, now, { recursive: true });
  const all = (fs.readdirSync(now, { recursive: true }) as string[])
    .sort()
    .filter((path) => fs.statSync(join(now, path)).isFile());
  all.forEach((path, i) => {
    const file = join(now, path);
    const lines = fs.readFileSync(file, "utf8").split("\n");
    if (i % 9 === 0) fs.rmSync(file);
    else if (i % 9 === 1) fs.writeFileSync(file, lines.filter((_, n) => n % 17 !== 3).join("\n"));
    else if (i % 9 === 2) lines.splice(lines.length / 2, 0, "a new line", `of file ${i}`);
    else if (i % 9 === 3) lines[0] = `// changed ${i}`;
    else if (i % 9 === 4) lines.splice(lines.length / 3, 12);
    else if (i % 9 === 5) fs.chmodSync(file, 0o755);
    else if (i % 9 === 6) fs.writeFileSync(`${file}.new`, `only here ${i}\n`);
    if ([2, 3, 4].includes(i % 9)) fs.writeFileSync(file, lines.join("\n"));
  });
  fs.writeFileSync(join(now, "no newline"), "one\ntwo\n");
  fs.writeFileSync(join(now, "binary"), Buffer.from([0, 1, 3]));
}

plant();
const deployment = await deployed(project({ after }, { "tasks/a.ts": {} }));
await printed(["deployment", "promote", deployment]);
const made = JSON.parse(await printed(["workspace", "create", "--sandbox", "s", "--json"]));
const workspace: string = made.workspace.id;
const put = async (folder: string): Promise<string> =>
  (await printed(["workspace", "files", "put", workspace, folder, "/"])).trim();
const from = await put(before);
for (const path of fs.readdirSync(before)) await printed(["workspace", "files", "rm", workspace, path, "--recursive"]);
const to = await put(now);

interface Change {
  readonly path: string;
  readonly change: string;
  readonly path_before?: string;
  readonly patch?: string;
  readonly binary?: boolean;
  readonly type: string;
}

async function changes(query: string): Promise<Change[]> {
  const all: Change[] = [];
  for (let cursor = ""; ;) {
    const { status, body } = await api(
      `/workspaces/${workspace}/diff?from=${from}&to=${to}${query}${cursor}&limit=500`,
    );
    assert.equal(status, 200, JSON.stringify(body));
    all.push(...body.entries);
    if (!body.next_cursor) return all;
    cursor = `&cursor=${encodeURIComponent(body.next_cursor)}`;
  }
}

test("the changed paths are those that git names", async () => {
  const letters: Record<string, string> = { added: "A", deleted: "D", modified: "M", mode_changed: "M", type_changed: "T" };
  const ours = (await changes(""))
    .filter(({ type }) => type !== "directory")
    .flatMap(({ path, change, path_before }) =>
      change === "renamed" ? [`D ${path_before}`, `A ${path}`] : [`${letters[change]} ${path}`],
    );
  const gits = gitPaths(place);
  assert.deepEqual(ours.sort(), gits);
  assert.ok(gits.length > 100);
});

test("the patches of changed texts are those that git writes", async () => {
  const gits = hunksOf(gitDiff(place, "-U3"));
  const changed = (await changes("&patch=1")).filter(({ change }) => change === "modified");
  assert.ok(changed.length > 60);
  for (const { path, patch, binary } of changed) {
    if (binary) {
      assert.ok([before, now].some((side) => fs.readFileSync(join(side, path)).includes(0)), path);
      continue;
    }
    if (patch === undefined) continue; // A text over 256 KiB.
    assert.ok(patch.startsWith(`--- a/${path}\n+++ b/${path}\n@@ `), patch);
    assert.equal(shortened(patch.slice(patch.indexOf("@@"))), gits.get(path), path);
  }
});

test("git applies what the command prints, and has the other tree then", async () => {
  const all = (await changes("&patch=1")).filter(({ patch }) => patch !== undefined);
  const copy = join(place, "copy");
  fs.cpSync(before, copy, { recursive: true });
  const applied = spawnSync("git", ["apply", "--unsafe-paths", "-p1", "-"], {
    cwd: copy,
    input: all.map(({ patch }) => patch).join(""),
  });
  assert.equal(applied.status, 0, applied.stderr.toString());
  for (const { path } of all.filter(({ change }) => change !== "deleted"))
    assert.equal(fs.readFileSync(join(copy, path), "utf8"), fs.readFileSync(join(now, path), "utf8"), path);
  for (const { path } of all.filter(({ change }) => change === "deleted"))
    assert.equal(fs.existsSync(join(copy, path)), false, path);
  const printedAll = await printed(["diff", workspace, "--from", from, "--to", to, "--patch"]);
  for (const { patch } of all.slice(0, 20)) assert.ok(printedAll.includes((patch as string).slice(0, 400)));
});
