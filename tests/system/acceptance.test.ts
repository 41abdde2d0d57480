// What the documents promise, row by row. A row is proved here, by tests that it names, or says what
// it waits for.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { binary, deploy, deployed, examples, printed, projects, shared } from "./lib/helmr.ts";
import { api, helmr } from "./lib/helmr.ts";
import { declare, idsOf, lookUp } from "./lib/checklist.ts";
import type { Row } from "./lib/checklist.ts";
import { command } from "./lib/installation.ts";
import { until } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { bound, deployedReview, event, eventsOf, key, payload, said, show } from "./lib/review.ts";
import { startArgs, startedReview, tried } from "./lib/review.ts";

const console_ = "needs the web console";
const workspaces = "needs workspaces as things of their own (files, exec, PTY)";
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\n$/;

const startsAMachine: Row["run"] = async (t) => {
  const guest = `${process.env.B ?? "build"}/guest-image`;
  if (!existsSync(`${guest}/kernel`)) return t.skip("what microVMs start from is not made: make vm");
  const { code, stdout, stderr } = await command("tools/smoke.py", [guest]);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /a microVM was started with(out)? KVM/);
};

const gettingStarted: Row[] = [
  { id: "A1", what: "doctor", by: ["doctor: the doctor finds a machine that can run sandboxes"] },
  { id: "A2", what: "make dev", skip: `${console_} and its seeded runs` },
  { id: "A3", what: "/dev/login", skip: `${console_} and its seeded runs` },
  {
    id: "A4",
    what: "make test with its build and type check; make lint is by itself",
    by: ["tools/test.py: typecheck", "./Makefile: tools/lint.sh"],
  },
  {
    id: "A5",
    what: "PostgreSQL and image builder suites inside make test",
    by: ["src/store/store_test.c: TEST(", "tools/test.py: meson_suite(default, each, c)"],
  },
  { id: "A6", what: "make smoke", run: startsAMachine, by: ["./Makefile: tools/smoke.py"] },
];

async function typeChecks(): Promise<void> {
  const flags = "--noEmit --strict --target es2023 --module esnext --moduleResolution bundler";
  const files = ["helmr.config.ts", "tasks/review-pr.ts"].map((file) => `${projects}review-pr/${file}`);
  const args = [...flags.split(" "), "--types", "node", "--skipLibCheck", ...files];
  const { code, stdout } = await command("node_modules/.bin/tsc", args);
  assert.equal(code, 0, stdout);
}

async function goesToItsProject(): Promise<void> {
  const version = await deployedReview();
  assert.match(await said(["deployment", "get", version]), /^Status: deployed$/m);
  assert.match(await said(["task", "list"]), /^review-pr\t/);
  const elsewhere = { cwd: tmpdir() };
  const id = await printed([...startArgs, ...bound, "-p", "github-pr-review"], elsewhere);
  assert.match(id, uuid);
  await said(["run", "cancel", id.trim()]);
}

async function startsOnce(): Promise<void> {
  const id = await startedReview();
  assert.match(id, uuid);
  const run = await show(id.trim());
  assert.match(await said(["session", "get", run.session_id]), new RegExp(`Workspace: ${run.workspace_id}`));
}

async function waitsForAPerson(): Promise<void> {
  const id = (await startedReview()).trim();
  const { attributes } = await event(id, "run_wait.created");
  assert.equal(attributes.metadata.prompt, "Post this review to GitHub?");
  await until("waiting", async () => (await show(id)).status === "waiting");
  assert.match(await said(["show", id]), new RegExp(`^Wait: token:${attributes.wait_id}$`, "m"));
  assert.match(await said(["ps"]), new RegExp(`^${id}\t.*\ttoken:${attributes.wait_id}\t`, "m"));
}

async function isParked(): Promise<void> {
  await event((await startedReview()).trim(), "checkpoint.ready");
  await until("no lease", async () => /^active: 0$/m.test(await printed(["worker", "status"])));
}

async function refusesOtherSources(): Promise<void> {
  await deployedReview();
  const before = await said(["ps", "--json"]);
  for (const source of ["env:OPENAI_API_KEY", "file:/x"]) {
    const { code, stderr } = await tried([...startArgs, "--secret", `OPENAI_API_KEY=${source}`]);
    assert.equal(code, 1);
    assert.match(stderr, /^helmr: .*vault/);
  }
  assert.equal(await said(["ps", "--json"]), before);
  const body = JSON.stringify({ task_id: "review-pr", secrets: { A: "env:A" } });
  const { status, body: answer } = await api("/runs", { method: "POST", body });
  assert.deepEqual([status, answer.code], [400, "secret_source_unsupported"]);
}

async function usesTheStoredSecret(): Promise<void> {
  await deployedReview();
  const id = (await said(startArgs)).trim();
  await event(id, "run_wait.created");
  await said(["run", "cancel", id, "--force"]);
  await said(["secret", "delete", "OPENAI_API_KEY", "--yes"]);
  const { code, stderr } = await tried(startArgs);
  assert.equal(code, 1);
  assert.match(stderr, /\(secret_missing\)/);
  await said(["secret", "set", "OPENAI_API_KEY"], { input: key });
}

async function keepsThePayload(): Promise<void> {
  const id = (await startedReview()).trim();
  assert.deepEqual((await show(id)).payload, JSON.parse(payload));
  const [created] = await eventsOf(id);
  assert.equal(created.kind, "run.created");
  assert.deepEqual(created.attributes.payload, JSON.parse(payload));
}

const withSecret = `import { image, sandbox, task } from "@helmr/sdk";
export const mine = task({
  id: "my-task",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  secrets: { OPENAI_API_KEY: { env: "OPENAI_API_KEY" } },
  run: async () => "fine",
});
`;

const runsWhatIsDeployed: Row["run"] = async (t) => {
  const folder = project(t, { "tasks/a.ts": withSecret });
  const start = ["run", "my-task", ...bound];
  await printed(["secret", "set", "OPENAI_API_KEY"], { input: key });
  await printed(["deploy", folder]);
  const id = await printed(start);
  assert.match(id, uuid);
  await printed(["run", "wait", id.trim()]);
  await printed(["deploy", `${examples}hello-world`]);
  const { code, stderr } = await helmr(start);
  assert.equal(code, 1);
  assert.match(stderr, /\(task_not_deployed\)/);
};

/* A worker that must not start because of its key. */
async function needsItsKey(): Promise<void> {
  const folder = mkdtempSync(`${tmpdir()}/helmr-key-`);
  const name = "HELMR_CHECKPOINT_ENCRYPTION_KEY";
  const env = { HELMR_CONTROL_URL: "http://127.0.0.1:9", HELMR_DATA_DIR: folder };
  for (const value of ["", "not base64", Buffer.alloc(31).toString("base64")]) {
    const { code, stderr } = await command(binary, ["worker"], { env: { ...env, [name]: value } });
    assert.equal(code, 1, stderr);
    assert.ok(stderr.includes(name), stderr);
  }
  rmSync(folder, { recursive: true });
}

const posted = "seeds: a review waits, everything is stopped and started, and it is posted";

const approval: Row[] = [
  { id: "B1", what: "the project type-checks strictly", run: typeChecks },
  { id: "B2", what: "deploy", by: [posted] },
  { id: "B3", what: "deploy again unchanged", by: ["seeds: unchanged is not built again"] },
  { id: "B4", what: "the project of the config file is used when it is there", run: goesToItsProject },
  {
    id: "B5",
    what: "a secret is stored and shown nowhere",
    by: [
      "tests/process/cli_test.py: def a_secret_is_stored_listed_and_never_shown",
      "secrets: what a task says is clean, and the value is nowhere afterwards",
    ],
  },
  { id: "B6", what: "run prints one id; session and workspace are there", run: startsOnce },
  { id: "B7", what: "show and ps tell what it waits for", run: waitsForAPerson },
  { id: "B8", what: "it is parked, and no lease is left", run: isParked, by: [posted] },
  { id: "B9", what: "everything is restarted, the answer resumes it", by: [posted] },
  { id: "B10", what: "workspace files read", skip: workspaces },
  { id: "B11", what: "diff shows the file and nothing of the image", by: [posted] },
  { id: "B12", what: "a second run is turned down", by: [posted] },
  { id: "B13", what: "the answer is given in the console", skip: console_ },
  { id: "B14", what: "other sources of secrets are refused", run: refusesOtherSources },
  { id: "B15", what: "the stored secret of that name, then none", run: usesTheStoredSecret },
  { id: "B16", what: "the payload is kept in clear text", run: keepsThePayload },
  { id: "B17", what: "my-task, deployed and not", run: runsWhatIsDeployed },
  { id: "B18", what: "the working directory", by: ["contract: in a sandbox, ${name}"] },
  {
    id: "B19",
    what: "the key of checkpoints",
    run: needsItsKey,
    by: [
      "park_many: a second worker resumes what the first one parked",
      "park_many: a worker with another key is never offered it",
    ],
  },
];

const waitsForAWorker: Row["run"] = async (t) => {
  const files = { "tasks/a.ts": { sandbox: ".resources({ cpu: 512 })" } };
  const deployment = await deployed(project(t, files));
  const id = (await printed(["run", "a", "--deployment", deployment, "--ttl", "3s"])).trim();
  assert.match(await printed(["show", id]), /^Status: queued \(no_compatible_worker/m);
  assert.match(await printed(["run", "wait", id]), /^run_status: expired$/m);
};

const sandboxes: Row[] = [
  { id: "C1", what: "the image of the page is built and probed", by: ["seeds: is built, and its task"] },
  { id: "C2", what: "workspace exec finds the tools", skip: workspaces },
  {
    id: "C3",
    what: "a changed package.json",
    by: ["seeds: after a change of a copied file only later steps run", "seeds: no cache is in an image"],
  },
  {
    id: "C4",
    what: "every kind of step, and a build secret",
    by: ["images: every image step has its effect", "build_secrets: is in no byte of the data directory"],
  },
  {
    id: "C5",
    what: "reserved mount paths",
    by: ["builds: a reserved mount path", "sdk/typescript/test/authoring.test.ts: is reserved"],
  },
  {
    id: "C6",
    what: "no sandbox, no image",
    by: ["builds: a task without a sandbox", "builds: a sandbox without an image"],
  },
  {
    id: "C7",
    what: "no node, an old node",
    by: ["builds: an image without node", "builds: an image with Node 20"],
  },
  { id: "C8", what: "resources beyond every worker", run: waitsForAWorker },
];

const failsToInstall: Row["run"] = async (t) => {
  const dependencies = { nothing: "file:./nowhere.tgz" };
  const files = { "package.json": JSON.stringify({ private: true, type: "module", dependencies }) };
  const { record } = await deploy(project(t, files));
  assert.deepEqual([record.status, record.error.layer], ["failed", "deployment_build"]);
};

const contract = "contract: in a sandbox, ${name}";

const runtime: Row[] = [
  { id: "D1", what: "names of the host", by: [contract] },
  { id: "D2", what: "name service and routes", by: [contract, "isolation: reaches the internet by name"] },
  {
    id: "D3",
    what: "host, other sandboxes, metadata and private addresses",
    by: ["isolation: cannot connect to the host", "isolation: cannot connect to metadata services"],
  },
  { id: "D4", what: "devices, terminals, shared memory", by: [contract] },
  { id: "D5", what: "initial directory; exec with --cwd", by: [contract], skip: workspaces },
  {
    id: "D6",
    what: "what is written outside the workspace",
    by: ["contract: is gone in the next", "workspaces: a run shows what it changed and nothing of its image"],
  },
  { id: "D7", what: "the deployment's source", by: [contract] },
  { id: "D8", what: "secrets as variable, file, directory", by: ["secrets: have their modes and owners"] },
  { id: "D9", what: "a secret nobody can read", by: ["secrets: cannot read or reach fails the run"] },
  { id: "D10", what: "a printed secret", by: ["secrets: what a task says is clean"] },
  { id: "D11", what: "streams, metadata, timers, tokens and logger of one task", skip: "needs streams" },
  {
    id: "D12",
    what: "faults of the project",
    run: failsToInstall,
    by: ["builds: a syntax error", "builds: a broken package.json"],
  },
  {
    id: "D13",
    what: "faults of the image",
    by: [
      "builds: an image without node",
      "runtime/typescript/test/check.test.ts: a dependency that is nowhere in the chain is missing",
    ],
  },
  {
    id: "D14",
    what: "faults of the sandbox",
    by: ["park_faults: the engine is killed while a run waits", "machine: harms itself only"],
  },
  {
    id: "D15",
    what: "throw and process.exit",
    by: ["outcomes: fails with its message and its own stack", "outcomes: keeps its exit code"],
  },
  {
    id: "D16",
    what: "maximum duration, without the time that is waited",
    by: ["outcomes: ended at its maximum duration", "waits: is not time that is used"],
  },
  {
    id: "D17",
    what: "a wait that times out, a damaged checkpoint",
    by: ["waits: nobody answers: the run fails and says so", "crash: is not believed"],
  },
];

async function managesSecretsBlindly(): Promise<void> {
  const key = (await printed(["key", "create", "secrets", "--permission", "secrets:write"])).trim();
  const value = "a value of the checklist";
  const path = "/secrets/CHECKLIST";
  const answers = [
    await api(path, { method: "PUT", key, body: JSON.stringify({ value }) }),
    await api("/secrets", { key }),
    await api(path, { key }),
    await api(path, { method: "DELETE", key }),
  ];
  assert.deepEqual(answers.map(({ status }) => status), [201, 200, 200, 204]);
  assert.ok(!JSON.stringify(answers).includes(value));
}

async function describesWorkers(): Promise<void> {
  const { workers } = JSON.parse(await printed(["worker", "list", "--json"]));
  const { capabilities } = workers[0];
  for (const name of ["arch", "rootfs_digest", "cni_profile", "vcpus", "memory_mib"])
    assert.ok(name in capabilities, name);
  // The kernel of gVisor is the engine itself.
  assert.ok("kernel_digest" in capabilities || "engine_build" in capabilities);
  assert.ok(capabilities.execution_slots > 0);
}

const security: Row[] = [
  {
    id: "E1",
    what: "each permission by itself",
    by: ["src/server/permissions_test.c: every_route_lets_in_whom_the_golden_matrix_says"],
  },
  { id: "E2", what: "another environment", by: ["scopes: acts in its one environment"] },
  {
    id: "E3",
    what: "revoked and expired keys",
    by: ["refusals: a revoked key is refused at once", "src/server/api_keys_test.c: list(service, expired), 401"],
  },
  { id: "E4", what: "nothing in clear text in the database", by: ["core: a live secret is in no file"] },
  { id: "E5", what: "a key for secrets sees no value", run: managesSecretsBlindly },
  {
    id: "E6",
    what: "start with and without a workspace",
    by: [
      "sessions: a workspace is written by one session at a time",
      "src/server/task_session_test.c: workspace_sandbox_incompatible",
    ],
  },
  { id: "E7", what: "workers tell what they have", run: describesWorkers },
  {
    id: "E8",
    what: "checkpoints are sealed, and a changed byte is refused",
    by: ["workspaces: what is stored tells nothing without the key", "crash: is not believed"],
  },
  {
    id: "E9",
    what: "one writer of a workspace, run or exec",
    by: ["sessions: a workspace is written by one session at a time"],
    skip: workspaces,
  },
];

const brokered = withSecret.replace('{ env: "OPENAI_API_KEY" }', '{ env: "A", broker: [{ host: "a.example" }] }');

const refusesBrokers: Row["run"] = async (t) => {
  const { record } = await deploy(project(t, { "tasks/a.ts": brokered }));
  assert.deepEqual([record.status, record.error?.failure_kind], ["failed", "task_invalid"]);
};

const isolation: Row[] = [
  { id: "F1", what: "apt-get and git in a task and a PTY", skip: workspaces },
  {
    id: "F2",
    what: "the host and other sessions cannot be reached",
    by: ["isolation: a run sees no file of another run", "isolation: cannot connect to another run"],
  },
  {
    id: "F3",
    what: "a runaway sandbox ends alone",
    by: ["flood: memory stays flat", "conformance: a program cannot start processes without end"],
  },
  { id: "F4", what: "brokered secrets are refused while there is no broker", run: refusesBrokers },
  { id: "F5", what: "files survive an unexpected end", by: ["workspaces: what a failed run left"] },
];

/* Its README is run as it is printed, so that it has to be there. */
const example = (id: string, name: string): Row => ({
  id,
  what: name,
  by: ["examples: does what its README says"],
  run: () => readFileSync(`${examples}${name}/README.md`),
});

const projectsOfExamples: Row[] = [
  example("G1", "hello-world"),
  example("G2", "dependency-cache"),
  example("G3", "cli-tooling"),
  example("G4", "human-in-the-loop"),
  example("G5", "secret-vault"),
  example("G6", "github-pr-review"),
  { id: "G7", what: "slack-approval", skip: "needs streams" },
  example("G8", "email-approval"),
  {
    id: "G9",
    what: "the project that init makes",
    by: ["cli: a new project deploys as it is", "cli: the task of a new project runs"],
  },
];

async function operates(): Promise<void> {
  assert.match(await printed(["worker", "drain", "--timeout", "2m"]), /^state: draining$/m);
  assert.equal((await helmr(["worker", "status"])).code, 1);
  assert.match(await printed(["worker", "drain", "--undo"]), /^state: active$/m);
  assert.match(await printed(["worker", "status"]), /^state: active$/m);
  const made = await shared.image(["bootstrap", "node:24-bookworm-slim"]);
  assert.deepEqual(await shared.image(["bootstrap", "node:24-bookworm-slim"]), made);
  assert.match(made.stdout, /^node:24-bookworm-slim\tsha256:[0-9a-f]{64}\n$/);
  assert.equal(Buffer.from(await printed(["key", "generate"]), "base64").length, 32);
  const folder = mkdtempSync(`${tmpdir()}/helmr-keyless-`);
  const env = { HELMR_MASTER_KEY: "", HELMR_WORKER_BOOTSTRAP_TOKEN: "x".repeat(43) };
  const server = ["server", "--data-dir", folder, "--addr", "127.0.0.1:0"];
  const { code, stderr } = await command(binary, server, { env });
  rmSync(folder, { recursive: true });
  assert.equal(code, 1, stderr);
  assert.match(stderr, /HELMR_MASTER_KEY/);
}

const rest: Row[] = [
  {
    id: "H1",
    what: "forks and their difference",
    by: ["fork: a branch for each answer", "fork: what differs between two branches is shown"],
  },
  { id: "H2", what: "login, whoami, logout", by: ["accounts: login shows a code, waits for a browser"] },
  { id: "H3", what: "workspace shell", skip: workspaces },
  {
    id: "H4",
    what: "events and logs over cut connections",
    by: ["stream: events followed over 20 cut connections", "stream: logs followed over 20 cut connections"],
  },
  {
    id: "H5",
    what: "answers by callback, public access token and one-use link",
    by: [
      "waits: a token is completed once, by its callback address",
      "tokens: a token's own public access token completes it and nothing else",
      "tokens: a link for one answer takes one, and its repetition",
      "tokens: equal data again is no conflict",
    ],
  },
  {
    id: "H6",
    what: "input to a session whose run is over",
    by: ["sessions: input after the end of a run makes the next one, in the same workspace"],
  },
  {
    id: "H7",
    what: "a schedule of every minute",
    by: [
      "schedules: a declared schedule starts one run at a real minute",
      "schedules: a server that was down over two slots starts one late run",
      "tests/process/schedule_test.py: two_servers_fire_each_of_a_thousand_once",
    ],
  },
  {
    id: "H8",
    what: "kill -9 of every process in every state",
    by: [
      "kill: kills at random moments lose no run",
      "crash: is killed when",
      "park_faults: the engine is killed while a run is parked",
    ],
  },
  {
    id: "H9",
    what: "operating commands",
    run: operates,
    by: ["rotation: without the old key everything that was used goes on"],
  },
  {
    id: "H10",
    what: "lists on a terminal and in a pipe",
    by: [
      "tests/process/cli_test.py: def lists_have_a_header_on_a_terminal_and_tabs_in_a_pipe",
      "tests/process/cli_test.py: def json_is_one_document_and_jsonl_one_object_a_line",
    ],
  },
  {
    id: "H11",
    what: "what is wrong on each route",
    by: ["refusals: is refused with ${status} ${code}", "refusals: nothing that was refused has changed"],
  },
  { id: "H12", what: "1,000 parked runs", by: ["park_long: runs are parked at once"] },
];

const rows = [gettingStarted, approval, sandboxes, runtime, security, isolation, projectsOfExamples, rest];

test("every row is there, once", () => {
  const ids = rows.flat().map(({ id }) => id);
  assert.deepEqual(ids, idsOf({ A: 6, B: 19, C: 8, D: 17, E: 9, F: 5, G: 9, H: 12 }));
});

test("a row cannot name a test that is not there", () => {
  assert.throws(() => lookUp("doctor: the doctor sings"), /has no "the doctor sings"/);
});

for (const row of rows.flat()) declare(row);
