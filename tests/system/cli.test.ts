import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import { engine } from "./lib/engine.ts";
import { api, helmr, printed } from "./lib/helmr.ts";

const folder = mkdtempSync(`${tmpdir()}/helmr-init-`);
const inProject = { cwd: folder };
const id = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

after(() => rmSync(folder, { recursive: true }));

test("a new project deploys as it is", async () => {
  const made = await printed(["init"], inProject);
  assert.deepEqual(made.trim().split("\n").sort(), [
    "created helmr.config.ts",
    "created package.json",
    "created tasks/hello.ts",
  ]);
  assert.deepEqual(readdirSync(folder).sort(), ["helmr.config.ts", "package.json", "tasks"]);
  const { code, stdout, stderr } = await helmr(["deploy", "."], inProject);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^\d{8}\.\d+\n$/);
  for (const text of ["Creating archive", "Uploading deployment", "Promoting deployment"])
    assert.ok(stderr.includes(text), stderr);
});

test("init never overwrites a file unless told to", async () => {
  const { code, stderr } = await helmr(["init"], inProject);
  assert.equal(code, 1);
  assert.match(stderr, /^helmr: .*helmr\.config\.ts/m);
});

let started = "";

test("the task of a new project runs", async () => {
  started = (await printed(["run", "hello", "-p", "name=Ada"], inProject)).trim();
  assert.match(started, id);
  const waited = await printed(["run", "wait", started]);
  assert.match(waited, /^run_status:\s+succeeded$/m);
  assert.match(waited, new RegExp(`^run_id:\\s+${started}$`, "m"));
});

test("a followed run prints its output and its status", async () => {
  const { code, stdout } = await helmr(["run", "hello", "--follow"], inProject);
  assert.equal(code, 0);
  const lines = stdout.trim().split("\n");
  assert.match(lines[0] as string, id);
  assert.match(lines.at(-1) as string, /^run_status:\s+succeeded$/);
});

test("one run is shown as labelled lines, and as the API's object", async () => {
  const shown = await printed(["show", started]);
  for (const label of ["ID", "Task", "Status", "Exit", "Attempt", "Engine", "Created", "Output"])
    assert.match(shown, new RegExp(`^${label}:\\s+\\S`, "m"));
  assert.match(shown, new RegExp(`^Engine:\\s+${engine.name} \\(${engine.grade}\\b`, "m"));
  const { body } = await api(`/runs/${started}`);
  assert.deepEqual(JSON.parse(await printed(["show", started, "--json"])), body);
});

/* Lists: the command, how many columns a line has, the member of the JSON document. */
const lists: [string[], number, string][] = [
  [["ps"], 5, "runs"],
  [["deployment", "list"], 5, "deployments"],
  [["task", "list"], 3, "tasks"],
  [["key", "list"], 6, "api_keys"],
  [["sandbox", "list"], 4, "sandboxes"],
  [["session", "list"], 5, "sessions"],
];

for (const [command, columns, member] of lists) {
  const name = `helmr ${command.join(" ")}`;

  test(`${name} in a pipe is tab-separated without a header`, async () => {
    const lines = (await printed(command)).trimEnd().split("\n");
    assert.ok(lines.length > 0);
    for (const line of lines) assert.equal(line.split("\t").length, columns, line);
    assert.doesNotMatch(lines[0] as string, /^[A-Z ]+\t/);
  });

  test(`${name} --json is one document and --jsonl one object a line`, async () => {
    const document = JSON.parse(await printed([...command, "--json"]));
    const lines = (await printed([...command, "--jsonl"])).trimEnd().split("\n");
    assert.ok(Array.isArray(document[member]));
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      document[member],
    );
  });
}

test("a session is started, found by either id, and closed when its run is over", async () => {
  const start = ["session", "start", "hello", "-p", "name=Ada", "--external-id", "of cli & co"];
  const begun = await printed([...start, "--wait"], inProject);
  const [, session, run] = /^session_id: (\S+)\nrun_id: (\S+)\n/.exec(begun) ?? [];
  assert.match(begun, /\nworkspace_id: \S+\nconsole_url: http\S+\/sessions\/\S+\nrun_status: succeeded\n$/);
  const again = JSON.parse(await printed([...start, "--json", "--wait"], inProject));
  assert.deepEqual([again.session.id, again.run.id, again.is_cached], [session, run, true]);
  assert.equal(again.run.status, "succeeded");
  const shown = await printed(["session", "get", session as string]);
  assert.equal(await printed(["session", "get", "--external-id", "of cli & co"]), shown);
  assert.match(shown, new RegExp(`^Session: ${session}\nTask: hello\nStatus: open\nActivity: idle\nRun: ${run}\n`));
  const closed = await printed(["session", "close", session as string, "--reason", "seen"]);
  assert.match(closed, new RegExp(`^operation: close\nsession_id: ${session}\nsession_status: closed\n`));
  const { code, stderr } = await helmr(start, inProject);
  assert.equal(code, 1);
  assert.match(stderr, /\(session_terminal\)/);
});

test("a session is cancelled with its run", async () => {
  const { session, run } = JSON.parse(await printed(["session", "start", "hello", "--json"], inProject));
  assert.match(await printed(["session", "cancel", session.id]), /^operation: cancel\n.*\nsession_status: cancelled\n/);
  assert.match(await printed(["run", "wait", run.id]), /^run_status: (cancelled|succeeded)$/m);
});

test("a sandbox is shown with what it has", async () => {
  const shown = await printed(["sandbox", "get", "hello"]);
  assert.match(shown, /^Sandbox: hello\nFingerprint: \S+\nGuest ABI: \S+\nMount: \/app\nImage: sha256:/);
  assert.match(shown, /^Resources: 2 vCPU, 2048 MiB memory, 8192 MiB disk$/m);
});

test("events are JSON lines that end with the run", async () => {
  const lines = (await printed(["events", started])).trimEnd().split("\n");
  assert.equal(JSON.parse(lines.at(-1) as string).kind, "run.completed");
});

test("logs keep stdout and stderr apart", async () => {
  const { stdout, stderr } = await helmr(["logs", started]);
  assert.match(stdout, /Ada/);
  assert.equal(stderr, "");
});

test("a deployment is found by its version and promoted again", async () => {
  const { body } = await api("/deployments/current");
  const { version } = body.deployment;
  assert.match(await printed(["deployment", "get", version]), /^Status:\s+deployed$/m);
  assert.equal(await printed(["deployment", "promote", version]), `${version}\n`);
});

/* Commands that must fail, and what they must say. */
const wrong: [string[], RegExp][] = [
  [["run", "nobody"], /^helmr: .*\(task_not_found\)/m],
  [["show", "01900000-0000-7000-8000-000000000000"], /^helmr: .*\(not_found\)/m],
  [["nonsense"], /^helmr: .*nonsense/m],
  [["ps", "--nonsense"], /^helmr: .*--nonsense/m],
  [["run", "hello", "--payload-json", "{"], /^helmr: --payload-json: not valid JSON/m],
  [["run", "hello", "-p", "a=1", "--payload-json", "{}"], /^helmr: /m],
  [["run", "hello", "--secret", "A=env:A"], /^helmr: .*vault/m],
  [["deploy", "/nowhere"], /^helmr: .*\/nowhere/m],
];

for (const [command, says] of wrong)
  test(`helmr ${command.join(" ")} fails with one line`, async () => {
    const { code, stdout, stderr } = await helmr(command, inProject);
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(stderr, says);
    assert.doesNotMatch(stderr, /^Usage/m);
  });

test("a server that is not there is told in one line", async () => {
  const { code, stderr } = await helmr(["ps", "-a", "http://127.0.0.1:9"]);
  assert.equal(code, 1);
  assert.match(stderr, /^helmr: .*127\.0\.0\.1:9/);
});

test("the version is bare and completion is for three shells", async () => {
  assert.match(await printed(["--version"]), /^\d+\.\d+\.\d+\n$/);
  for (const shell of ["bash", "zsh", "fish"])
    assert.match(await printed(["completion", shell]), /helmr/);
});
