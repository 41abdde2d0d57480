// Work in one workspace over several sittings, each on the other of two workers: repositories, a
// package and its tests, edits. After each, what Helmr says has changed is what git says.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { HelmrApiError } from "@helmr/sdk";
import type { WorkspaceHandle } from "@helmr/sdk";
import { patience } from "./lib/engine.ts";
import { gitDiff, gitPaths, hunksOf, readPatch } from "./lib/git_diff.ts";
import type { Told } from "./lib/git_diff.ts";
import { outside } from "./lib/outside.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own, Worker } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const files = {
  "tasks/a.ts": `import { execFileSync } from "node:child_process";
import { image, sandbox, task } from "@helmr/sdk";

const install = "apt-get update && apt-get install -y --no-install-recommends git";
const box = sandbox("work").image(image("i").from("node:24-bookworm-slim").run(["sh", "-ceu", install]));
const says = (...words: string[]) => execFileSync(words[0], words.slice(1), { cwd: "app", encoding: "utf8" });

export const checks = task({
  id: "checks",
  sandbox: box,
  run: async () => [says("git", "status", "--porcelain"), says("node", "--test", "--test-reporter=tap")],
});

export const naps = task({
  id: "naps",
  sandbox: box,
  run: async () => new Promise((resolve) => setTimeout(resolve, 600_000)),
});
`,
};

const begin = `
git init -q --bare -b main hub.git
git clone -q hub.git app
cd app
git config user.name Worker
git config user.email worker@example.com
mkdir -p greeting lib test docs/old
cat > greeting/package.json <<'END'
{ "name": "greeting", "version": "1.0.0", "bin": { "greet": "index.js" } }
END
cat > greeting/index.js <<'END'
#!/usr/bin/env node
module.exports = (name) => \`Hello, \${name}!\`;
END
npm pack --silent --pack-destination . ./greeting
rm -r greeting
cat > package.json <<'END'
{
  "name": "app",
  "version": "1.0.0",
  "scripts": { "test": "node --test --test-reporter=tap" },
  "dependencies": { "greeting": "file:greeting-1.0.0.tgz" }
}
END
cat > lib/names.js <<'END'
module.exports = ["Ada", "Grace"];
END
cat > lib/all.js <<'END'
const greeting = require("greeting");
const names = require("./names.js");

module.exports = () => names.map((name) => greeting(name));
END
cat > test/all.test.js <<'END'
const assert = require("node:assert");
const { test } = require("node:test");
const all = require("../lib/all.js");

test("as many as there are names", () => assert.equal(all().length, 2));
test("by name", () => assert.equal(all()[0], "Hello, Ada!"));
END
seq 1 300 > docs/numbers.txt
echo 'not for long' > docs/old/notes.txt
: > docs/old/empty
printf 'echo run\\n' > run.sh
printf '\\000\\001\\002' > logo.bin
printf 'no line end' > version
echo readme > README
echo node_modules > .gitignore
git add -A
git commit -qm 'The first'
git push -q origin main
git clone -q ../hub.git ../other
`;

const install = `
cd app
npm install --offline --no-audit --no-fund
npm test
git status --porcelain
`;

const edit = `
cd app
sed -i -e 3d -e '150s/$/ and more/' -e '298a between' -e '20,22s/^/a /' docs/numbers.txt
mv lib/names.js lib/people.js
sed -i 's/names.js/people.js/' lib/all.js
sed -i 's/Hello, Ada!/Hello, Barbara!/' test/all.test.js
rm -r docs/old
chmod +x run.sh
printf '\\000\\001\\003\\004' > logo.bin
printf 'with a line end\\n' > version
ln -sf package.json README
printf 'grüße → 世界\\n' > 'docs/two words.txt'
mkdir docs/empty
: > docs/new
npm test
`;

/* The status to one output, the changes to the other. */
const review = `
cd app
git status --porcelain --no-renames
git -c core.quotePath=false -c diff.indentHeuristic=false diff --no-renames >&2
`;

const publish = `
cd app
sed -i 's/Barbara/Ada/' test/all.test.js
npm test
git add -A
git commit -qm 'The second'
git push -q origin main
cd ../other
git pull -q
git fsck --strict
git log --format=%s
`;

const cloneAgain = `
cd app
git status --porcelain
git diff --no-renames --name-status HEAD~1
git clone -q ../hub.git ../again
cd ../again
npm ci --offline --no-audit --no-fund
npm test
`;

const refused = (error: unknown): boolean =>
  error instanceof HelmrApiError && error.code === "workspace_writer_active";

/** Those that people see; git's own are too many to name. */
const visible = ({ paths }: Told): string[] => paths.filter((path) => !/\.git\//.test(path));

suite("work in one workspace", { skip: (await outside()).skip ?? false }, () => {
  const scope = declaredScope();
  const place = fs.mkdtempSync(join(tmpdir(), "helmr-work-"));
  const [was, now] = [join(place, "before"), join(place, "now")] as const;
  after(() => fs.rmSync(place, { recursive: true, force: true }));
  let own: Own;
  let workspace: WorkspaceHandle;
  let first: Worker;
  let second: Worker;

  before(async () => {
    own = await startOwn(scope, { workers: [{ name: "first" }, { name: "second" }] });
    [first, second] = own.workers as [Worker, Worker];
    await own.printed(["deployment", "promote", await own.deployed(project(scope, files))]);
    const made = await own.client.workspaces.create({ sandboxId: "work" });
    workspace = own.client.workspaces.open(made.workspace);
  });

  /** The worker's row on the server. */
  async function row(worker: Worker): Promise<{ id: string; state: string; active_leases: number }> {
    const { body } = await own.api("/workers", { key: own.session });
    return body.workers.find(({ resource_id }: { resource_id: string }) => resource_id === worker.name);
  }

  async function ask(worker: Worker, verb: "drain" | "undrain"): Promise<void> {
    const path = `/workers/${(await row(worker)).id}/${verb}`;
    const { status, body } = await own.api(path, { key: own.session, method: "POST", body: "{}" });
    assert.equal(status, 200, JSON.stringify(body));
  }

  /** Only this one takes work from now on: the first is drained, the second is stopped. */
  async function only(worker: Worker): Promise<void> {
    if (worker === first) {
      if ((await row(first)).state === "draining") await ask(first, "undrain");
      await second.end("SIGTERM");
      return;
    }
    if (!second.isRunning) second.start();
    await own.active();
    if ((await row(first)).state === "active") await ask(first, "drain");
    await until("a drained worker", async () => (await row(first)).active_leases === 0);
  }

  /** A command on that worker as `helmr workspace exec` has it. */
  async function exec(worker: Worker, script: string) {
    await only(worker);
    const said = await own.helmr(["workspace", "exec", workspace.id, "--", "sh", "-ceu", script]);
    const mount = await workspace.materialize();
    assert.deepEqual([mount.state, mount.workerId], ["mounted", (await row(worker)).id]);
    return said;
  }

  /** The same, which must succeed: what it printed. */
  async function done(worker: Worker, script: string): Promise<string> {
    const { code, stdout, stderr } = await exec(worker, script);
    assert.equal(code, 0, stdout + stderr);
    return stdout;
  }

  const current = async (): Promise<string | undefined> => (await workspace.retrieve()).currentVersionId;

  async function stop(): Promise<string> {
    await own.printed(["workspace", "stop", workspace.id]);
    await until("no mount", async () => (await workspace.retrieve()).mount === undefined);
    return (await current()) as string;
  }

  /** A version in a folder: the older by the client, the newer by the command line. */
  async function fetchBoth(from: string | undefined, to: string): Promise<void> {
    for (const folder of [was, now]) fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(was);
    if (from) {
      const tar = await workspace.files.download("/", { source: "version", versionId: from });
      const input = Buffer.from(await new Response(tar).arrayBuffer());
      execFileSync("tar", ["-xpC", was], { input });
    }
    await own.printed(["workspace", "files", "get", workspace.id, "/", now, "--version", to]);
  }

  /** Whether both sides of a path, as far as there are any, are files of text. */
  function isText(path: string): boolean {
    const sides = [join(was, path), join(now, path)].map((side) => {
      const found = fs.lstatSync(side, { throwIfNoEntry: false });
      if (!found?.isFile()) return found === undefined;
      const text = fs.readFileSync(side, "utf8");
      return !/[\p{Cc}\uFFFD]/u.test(text.replaceAll(/[\t\n]/g, ""));
    });
    return sides.every((side) => side);
  }

  /** Stops, and holds what Helmr says has changed against what git says about the two trees. */
  async function compared(): Promise<Told> {
    const from = await current();
    const to = await stop();
    assert.notEqual(to, from);
    await fetchBoth(from, to);
    const args = ["diff", workspace.id, "--from", from ?? "image", "--to", to, "--patch"];
    const told = readPatch(await own.printed(args));
    assert.deepEqual(told.paths, gitPaths(place));
    const gits = hunksOf(gitDiff(place));
    for (const [path, hunks] of told.hunks)
      if (isText(path)) assert.equal(hunks, gits.get(path) ?? "", path);
    for (const path of gits.keys())
      if (isText(path)) assert.ok(told.hunks.has(path) || told.renamed.includes(path), path);
    for (const path of told.binaries) assert.ok(!isText(path), path);
    return told;
  }

  test("a package is made in a clone of a repository", async () => {
    await done(first, begin);
    const told = await compared();
    for (const path of ["hub.git/HEAD", "app/lib/all.js", "other/lib/all.js"])
      assert.ok(told.hunks.get(path)?.startsWith("@@ -0,0 +1"), path);
    for (const path of ["app/logo.bin", "app/.git/index", "app/greeting-1.0.0.tgz"])
      assert.ok(told.binaries.includes(path), path);
  });

  test("on the other worker it is installed, and its tests pass", async () => {
    const said = await done(second, install);
    assert.match(said, /^# pass 2$/m);
    assert.match(said, /^\?\? package-lock\.json\n$/m);
    const installed = ["node_modules/.bin/greet", "node_modules/.package-lock.json"].concat(
      ["index.js", "package.json"].map((file) => `node_modules/greeting/${file}`),
      "package-lock.json",
    );
    assert.deepEqual(
      visible(await compared()),
      installed.map((path) => `A app/${path}`),
    );
  });

  let edits: Told;

  test("files are edited, moved, removed and made, and a test fails", async () => {
    const { code, stdout, stderr } = await exec(first, edit);
    assert.equal(code, 1, stdout + stderr);
    assert.match(stdout, /^# pass 1\n# fail 1$/m);
    edits = await compared();
    const made = ["docs/new", "docs/two words.txt", "lib/people.js"];
    const gone = ["docs/old/empty", "docs/old/notes.txt", "lib/names.js"];
    const changed = ["docs/numbers.txt", "lib/all.js", "logo.bin", "run.sh", "test/all.test.js", "version"];
    assert.deepEqual(visible(edits), [
      ...made.map((path) => `A app/${path}`),
      ...gone.map((path) => `D app/${path}`),
      ...changed.map((path) => `M app/${path}`),
      "T app/README",
    ]);
    assert.deepEqual(edits.renamed, ["app/lib/names.js", "app/lib/people.js"]);
    assert.equal(edits.hunks.get("app/docs/numbers.txt")?.match(/^@@ /gm)?.length, 4);
  });

  test("git in the sandbox of the other worker sees the same edits, and commits them", async () => {
    const { code, stdout, stderr } = await exec(second, review);
    assert.equal(code, 0, stderr);
    assert.deepEqual(stdout.match(/^.. .*$/gm), [
      " T README",
      " M docs/numbers.txt",
      " D docs/old/empty",
      " D docs/old/notes.txt",
      " M lib/all.js",
      " D lib/names.js",
      " M logo.bin",
      " M run.sh",
      " M test/all.test.js",
      " M version",
      "?? docs/new",
      '?? "docs/two words.txt"',
      "?? lib/people.js",
      "?? package-lock.json",
    ]);
    const gits = hunksOf(stderr, "", "");
    for (const path of ["docs/numbers.txt", "docs/old/notes.txt", "lib/all.js", "test/all.test.js", "version"])
      assert.equal(edits.hunks.get(`app/${path}`), gits.get(path) ?? "none", path);
    assert.match(await done(second, publish), /^# pass 2$[^]*^The second\nThe first\n$/m);
    const { paths } = await compared();
    for (const path of ["M hub.git/refs/heads/main", "A other/lib/people.js", "T other/README"])
      assert.ok(paths.includes(path), path);
  });

  test("back on the first worker nothing is left to commit, and a new clone passes", async () => {
    const said = await done(first, cloneAgain);
    assert.ok(said.startsWith("T\tREADME\nA\tdocs/new\n"), said);
    assert.match(said, /^# pass 2$/m);
    const told = await compared();
    assert.ok(visible(told).every((path) => path.startsWith("A again/")));
    assert.ok(told.hunks.has("again/node_modules/greeting/index.js"));
  });

  const start = (task: string) =>
    own.client.sessions.start(task, {}, { workspaceId: workspace.id });

  test("no run begins while a command works", async () => {
    const printed = await own.printed(["workspace", "exec", workspace.id, "--detach", "--", "sleep", "1000"]);
    const id = /^exec_id: (.*)$/m.exec(printed)?.[1] ?? "";
    const of = (verb: string, ...flags: string[]) =>
      own.helmr(["workspace", "exec", verb, workspace.id, id, ...flags]);
    await until("a running command", async () => /^state: running$/im.test((await of("get")).stdout));
    await assert.rejects(start("checks"), refused);
    const said = await own.helmr(["session", "start", "checks", "--workspace", workspace.id]);
    assert.equal(said.code, 1);
    assert.match(said.stderr, /\(workspace_writer_active\)/);
    assert.equal((await of("kill", "--signal", "KILL")).code, 0);
    assert.equal((await of("wait")).code, 137);
    await stop();
  });

  test("no command begins while a run works, and a run goes on with what commands made", async () => {
    const version = await current();
    const { run } = await start("naps");
    const { code, stderr } = await own.helmr(["workspace", "exec", workspace.id, "--", "true"]);
    assert.equal(code, 1);
    assert.match(stderr, /\(workspace_writer_active\)/);
    await assert.rejects(workspace.exec(["true"]), refused);
    await own.client.runs.cancel(run.id, { force: true });
    await own.client.runs.wait(run.id, { timeoutMs: patience(120_000) });
    assert.equal(await current(), version);
    const { run: checks } = await start("checks");
    const { status, output, error } = await own.client.runs.wait(checks.id, { timeoutMs: patience(120_000) });
    assert.equal(status, "succeeded", JSON.stringify(error));
    const [left, tests] = output as [string, string];
    assert.equal(left, "");
    assert.match(tests, /^# pass 2$/m);
  });

  test("every store is whole, and nothing is left", () => own.stopClean());
});
