// What the documents promise, row by row. A row is proved here or by tests that it names.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { declare, idsOf, lookUp } from "./lib/checklist.ts";
import type { Row } from "./lib/checklist.ts";
import { examples } from "./lib/helmr.ts";
import * as other from "./lib/other_rows.ts";
import * as review from "./lib/review_rows.ts";

const gettingStarted: Row[] = [
  { id: "A1", what: "doctor", by: ["doctor: the doctor finds a machine that can run sandboxes"] },
  {
    id: "A2",
    what: "make dev, whose helmr up --seed has runs in every status",
    by: [
      "tour: has a run in every status, a talk, a schedule and tokens",
      "tour: has nothing twice after another start",
      "./Makefile: --seed",
    ],
  },
  {
    id: "A3",
    what: "/dev/login, on loopback only, and the examples in every status",
    by: [
      "console: one click signs in, on an overview of what runs, waits and failed, and on what",
      "tour: has a run in every status, a talk, a schedule and tokens",
      'tests/process/tls_test.py: server.ask("/api/auth/dev/login", "POST", "{}")[0] == 404',
    ],
  },
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
  { id: "A6", what: "make smoke", run: other.startsAMachine, by: ["./Makefile: tools/smoke.py"] },
];

const posted = "seeds: a review waits, everything is stopped and started, and it is posted";

const approval: Row[] = [
  { id: "B1", what: "the project type-checks strictly", run: review.typeChecks },
  { id: "B2", what: "deploy", by: [posted] },
  { id: "B3", what: "deploy again unchanged", by: ["seeds: unchanged is not built again"] },
  { id: "B4", what: "the project of the config file is used when it is there", run: review.goesToItsProject },
  {
    id: "B5",
    what: "a secret is stored and shown nowhere",
    by: [
      "tests/process/cli_test.py: def a_secret_is_stored_listed_and_never_shown",
      "secrets: what a task says is clean, and the value is nowhere afterwards",
    ],
  },
  { id: "B6", what: "run prints one id; session and workspace are there", run: review.startsOnce },
  { id: "B7", what: "show and ps tell what it waits for", run: review.waitsForAPerson },
  { id: "B8", what: "it is parked, and no lease is left", run: review.isParked, by: [posted] },
  { id: "B9", what: "everything is restarted, the answer resumes it", by: [posted] },
  { id: "B10", what: "workspace files read", by: [posted] },
  { id: "B11", what: "diff shows the file and nothing of the image", by: [posted] },
  { id: "B12", what: "a second run is turned down", by: [posted] },
  {
    id: "B13",
    what: "the answer is given in the console",
    by: ["console: the example is answered by keyboard, on a phone, and by a link that works once"],
  },
  { id: "B14", what: "other sources of secrets are refused", run: review.refusesOtherSources },
  { id: "B15", what: "the stored secret of that name, then none", run: review.usesTheStoredSecret },
  { id: "B16", what: "the payload is kept in clear text", run: review.keepsThePayload },
  { id: "B17", what: "my-task, deployed and not", run: other.runsWhatIsDeployed },
  { id: "B18", what: "the working directory", by: ["contract: in a sandbox, ${name}"] },
  {
    id: "B19",
    what: "the key of checkpoints",
    run: other.needsItsKey,
    by: [
      "park_many: a second worker resumes what the first one parked",
      "park_many: a worker with another key is never offered it",
    ],
  },
];

const sandboxes: Row[] = [
  { id: "C1", what: "the image of the page is built and probed", by: ["seeds: is built, and its task"] },
  { id: "C2", what: "workspace exec finds the tools", by: ["seeds: finds the tools, too"] },
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
  { id: "C8", what: "resources beyond every worker", run: other.waitsForAWorker },
];

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
  {
    id: "D5",
    what: "initial directory; exec with --cwd",
    by: [contract, "workspace_life: a command begins in the mount path, or where it is told to"],
  },
  {
    id: "D6",
    what: "what is written outside the workspace",
    by: ["contract: is gone in the next", "workspaces: a run shows what it changed and nothing of its image"],
  },
  { id: "D7", what: "the deployment's source", by: [contract] },
  { id: "D8", what: "secrets as variable, file, directory", by: ["secrets: have their modes and owners"] },
  { id: "D9", what: "a secret nobody can read", by: ["secrets: cannot read or reach fails the run"] },
  { id: "D10", what: "a printed secret", by: ["secrets: what a task says is clean"] },
  {
    id: "D11",
    what: "streams, metadata, timers, tokens and logger of one task",
    run: other.tellsOfItself,
  },
  {
    id: "D12",
    what: "faults of the project",
    run: other.failsToInstall,
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
  { id: "E5", what: "a key for secrets sees no value", run: other.managesSecretsBlindly },
  {
    id: "E6",
    what: "start with and without a workspace",
    by: [
      "sessions: a workspace is written by one session at a time",
      "src/server/task_session_life_test.c: workspace_sandbox_incompatible",
    ],
  },
  { id: "E7", what: "workers tell what they have", run: other.describesWorkers },
  {
    id: "E8",
    what: "checkpoints are sealed, and a changed byte is refused",
    by: ["workspaces: what is stored tells nothing without the key", "crash: is not believed"],
  },
  {
    id: "E9",
    what: "one writer of a workspace, run or exec",
    by: [
      "sessions: a workspace is written by one session at a time",
      "workspace_life: a run and a command exclude each other",
    ],
  },
];

const isolation: Row[] = [
  {
    id: "F1",
    what: "apt-get and git in a task and a PTY",
    by: ["agent: packages are installed and commits are pushed, in a task and in a shell"],
  },
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
  { id: "F4", what: "brokered secrets are refused while there is no broker", run: other.refusesBrokers },
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
  example("G7", "slack-approval"),
  example("G8", "email-approval"),
  {
    id: "G9",
    what: "the project that init makes",
    by: ["cli: a new project deploys as it is", "cli: the task of a new project runs"],
  },
];

const rest: Row[] = [
  {
    id: "H1",
    what: "forks and their difference",
    by: ["fork: a branch for each answer", "fork: what differs between two branches is shown"],
  },
  { id: "H2", what: "login, whoami, logout", by: ["accounts: login shows a code, waits for a browser"] },
  {
    id: "H3",
    what: "workspace shell",
    by: [
      "shell: a shell has the size of the terminal, follows it, and ends with its code",
      "shell: the connection is cut in the middle of output, and not a byte is lost or doubled",
      "shell: one detaches and comes back, and two see the same",
    ],
  },
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
      "answer: approves, and is worth nothing afterwards",
      "tokens: equal data again is no conflict",
    ],
  },
  {
    id: "H6",
    what: "input to a session whose run is over",
    run: other.goesOn,
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
    run: other.operates,
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
