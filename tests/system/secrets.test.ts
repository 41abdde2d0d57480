import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { api, binary, dataDir, deploy, deployed, helmr, printed, run, runEvents } from "./lib/helmr.ts";
import type { Result } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const value = `sk-${randomBytes(24).toString("base64url")}`;
const other = `pw "${randomBytes(12).toString("hex")}"\nand a second line of it`;

const task = (id: string, declared: string, body: string, steps = ""): string =>
  `import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { image, logger, sandbox, task } from "@helmr/sdk";

const early = process.env.OPENAI_API_KEY;
const look = (path: string) => {
  const { mode, uid, gid } = statSync(path);
  return [(mode & 0o7777).toString(8), uid, gid].join(" ");
};

export const subject = task({
  id: "${id}",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")${steps}),
  secrets: ${declared},
  run: async (payload: any) => {
    ${body}
  },
});
`;

const seeing = (id: string, declared: string): string =>
  task(id, declared, "return { length: process.env.OPENAI_API_KEY?.length ?? 0, early: early?.length ?? 0 };");

/** A line of a shell as people type it, with `helmr` and the variable in place. */
function shell(line: string): Promise<Result> {
  const child = spawn("sh", ["-c", `helmr() { "${binary}" "$@"; }; ${line}`], {
    env: { ...process.env, OPENAI_API_KEY: value },
  });
  const out: string[] = [];
  const err: string[] = [];
  child.stdout.on("data", (bytes: Buffer) => out.push(bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => err.push(bytes.toString()));
  return new Promise((resolve) =>
    child.on("close", (code) =>
      resolve({ code: code ?? -1, stdout: out.join(""), stderr: err.join("") }),
    ),
  );
}

async function outputOf(line: string): Promise<unknown> {
  const { code, stdout, stderr } = await shell(`${line} --wait --json`);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "").output;
}

test("a stored secret reaches the tasks that declare it, and no other", async (t) => {
  const path = project(t, {
    "tasks/a.ts": seeing("review-pr", '{ OPENAI_API_KEY: { env: "OPENAI_API_KEY" } }'),
    "tasks/b.ts": seeing("my-task", "{}"),
  });
  const set = await shell(`printf '%s' "$OPENAI_API_KEY" | helmr secret set OPENAI_API_KEY`);
  assert.deepEqual([set.code, set.stdout, set.stderr], [0, "OPENAI_API_KEY\n", ""]);

  const deployment = await deployed(path);
  const at = `--deployment ${deployment}`;
  const sees = { length: value.length, early: value.length };
  for (const binding of ["--secret OPENAI_API_KEY=vault:OPENAI_API_KEY", ""])
    assert.deepEqual(await outputOf(`helmr run review-pr ${at} ${binding}`), sees);
  const unseen = await outputOf(
    `helmr run my-task ${at} --secret OPENAI_API_KEY=vault:OPENAI_API_KEY`,
  );
  assert.deepEqual(unseen, { length: 0, early: 0 });

  await shell(`printf '%s' "$OPENAI_API_KEY$OPENAI_API_KEY" | helmr secret set SECOND`);
  assert.deepEqual(
    await outputOf(`helmr run review-pr ${at} --secret OPENAI_API_KEY=vault:SECOND`),
    { length: 2 * value.length, early: 2 * value.length },
  );
  for (const source of ["env:OPENAI_API_KEY", "file:/x"]) {
    const refused = await shell(`helmr run review-pr ${at} --secret OPENAI_API_KEY=${source}`);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /vault/);
  }
  await printed(["secret", "delete", "SECOND", "--yes"]);
});

test("a start without a stored secret is refused by name", async (t) => {
  const path = project(t, {
    "tasks/a.ts": task("a", '{ NOT_HERE: { env: "A" }, NOR_HERE: { file: "b" } }', ""),
  });
  const body = JSON.stringify({
    task_id: "a",
    options: { deployment_id: await deployed(path) },
  });
  const { status, body: told } = await api("/runs", { method: "POST", body });
  assert.equal(status, 422);
  assert.equal(told.code, "secret_missing");
  assert.deepEqual(told.details, { names: ["NOT_HERE", "NOR_HERE"] });
});

test("files and directories have their modes and owners, and are on no disk", async (t) => {
  const declared = `{
    CONFIG: { file: "/run/secrets/config.json" },
    KEY: { file: "conf/key", mode: "0640", owner: "node" },
    CREDS: { dir: "/run/creds" },
    MORE: { dir: "/run/creds" },
    OPEN: { dir: "/srv/open", mode: "0755", owner: "1000:1000" },
    COVER: { file: "/etc/motd", mode: "0444" },
  }`;
  const body = `return {
      config: look("/run/secrets/config.json"), parent: look("/run/secrets"),
      key: look("/workspace/conf/key"), creds: look("/run/creds"),
      names: readdirSync("/run/creds").sort(), inside: look("/run/creds/CREDS"),
      open: look("/srv/open"), openFile: look("/srv/open/OPEN"),
      texts: [readFileSync("conf/key", "utf8"), readFileSync("/etc/motd", "utf8")],
      disk: spawnSync("sh", ["-c", "for f in /run/secrets/config.json conf/key /run/creds/MORE; " +
        "do stat -f -c %T $f; done"], { encoding: "utf8" }).stdout,
      arguments: spawnSync("sh", ["-c", "cat /proc/*/cmdline"], { encoding: "utf8" }).stdout
        .includes("-of-the-test"),
    };`;
  const names = ["CONFIG", "KEY", "CREDS", "MORE", "OPEN", "COVER"];
  for (const name of names)
    await printed(["secret", "set", name], { input: `${name}-of-the-test` });
  const deployment = await deployed(project(t, { "tasks/a.ts": task("files", declared, body) }));
  const ended = await run(deployment, "files");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  const output = ended.output as Record<string, unknown>;
  assert.deepEqual(
    { ...output, disk: undefined },
    {
      config: "600 0 0",
      parent: "700 0 0",
      key: "640 1000 1000",
      creds: "700 0 0",
      names: ["CREDS", "MORE"],
      inside: "600 0 0",
      open: "755 1000 1000",
      openFile: "644 1000 1000",
      texts: ["KEY-of-the-test", "COVER-of-the-test"],
      disk: undefined,
      arguments: false,
    },
  );
  assert.match(String(output.disk), /^(?:tmpfs\n){3}$/);
  const steps = (await runEvents(ended.id)).filter(({ kind }) => kind === "run.prepare");
  assert.ok(steps.some(({ attributes }) => attributes.step === "secrets"));
});

test("what the runtime user cannot read or reach fails the run", async (t) => {
  const user = '.run(["sh", "-c", "mkdir -m 700 /srv/closed"]).user("node")';
  const path = project(t, {
    "tasks/a.ts": task("a", '{ KEY: { file: "/srv/closed/key", mode: "0644" } }', "", user),
    "tasks/b.ts": task("b", '{ KEY: { file: "/srv/key", owner: "root" } }', "", user),
    "tasks/c.ts": task("c", '{ KEY: { file: "/srv/key", owner: "stranger" } }', "", user),
    "tasks/d.ts": task("d", '{ KEY: { file: "/srv/key" } }', "return look('/srv/key');", user),
  });
  const deployment = await deployed(path);
  const retry = { maxAttempts: 3 };
  for (const id of ["a", "b", "c"]) {
    const { id: runId, status, error, attemptNumber } = await run(deployment, id, undefined, { retry });
    assert.equal(status, "failed");
    // Nothing of it has run, and trying again would change nothing.
    assert.equal(attemptNumber, 1);
    const kinds = (await runEvents(runId)).map(({ kind }) => kind);
    assert.equal(kinds.filter((kind) => kind === "run.lease_assigned").length, 1);
    assert.deepEqual(
      [error?.layer, error?.failureKind],
      ["guest_runtime", "secret_unreadable"],
      JSON.stringify(error),
    );
  }
  assert.equal((await run(deployment, "d")).output, "600 1000 1000");
});

test("variables that would steer the loader or the platform are refused", async (t) => {
  for (const variable of ["LD_PRELOAD", "HELMR_API_KEY"]) {
    const path = project(t, { "tasks/a.ts": task("a", `{ KEY: { env: "${variable}" } }`, "") });
    const { record } = await deploy(path);
    assert.equal(record.status, "failed");
    assert.match(record.error.message, new RegExp(`${variable}|LD_ or HELMR_`));
  }
});

test("what a task says is clean, and the value is nowhere afterwards", async (t) => {
  const declared = '{ OPENAI_API_KEY: { env: "OPENAI_API_KEY" }, OTHER: { file: "other" } }';
  const body = `const key = process.env.OPENAI_API_KEY ?? "";
    const other = readFileSync("other", "utf8");
    process.stdout.write("begin " + key.slice(0, 7));
    await new Promise((done) => setTimeout(done, 50));
    process.stdout.write(key.slice(7) + " end\\n");
    console.error(Buffer.from("x" + key).toString("base64"), other);
    logger.info("the key is " + key, { key, nested: [{ other }], ["as " + key]: 1 });
    spawnSync("sh", ["-c", "echo $OPENAI_API_KEY >&2"], { stdio: "inherit" });
    throw new Error("failed with " + key + " and " + other);`;
  await printed(["secret", "set", "OPENAI_API_KEY"], { input: value });
  await printed(["secret", "set", "OTHER"], { input: other });
  const deployment = await deployed(project(t, { "tasks/a.ts": task("leaky", declared, body) }));
  const ended = await run(deployment, "leaky");
  assert.equal(ended.status, "failed");
  assert.match(ended.error?.message ?? "", /^failed with \[redacted\] and \[redacted\]/);

  const logs = await printed(["run", "logs", ended.id]);
  assert.match(logs, /begin \[redacted\] end\n/);
  const all = JSON.stringify([ended, logs, await runEvents(ended.id)]);
  assert.match(all, /the key is \[redacted\]/);
  for (const bytes of [value, other])
    for (const text of [bytes, JSON.stringify(bytes).slice(1, -1)])
      assert.ok(!all.includes(text), all);
  assert.ok(!all.includes(Buffer.from(value.slice(2)).toString("base64").slice(4, 24)));

  const spellings = [
    value,
    Buffer.from(value).toString("base64").slice(0, -4),
    Buffer.from(value).toString("hex"),
  ];
  const holding = (text: string): string =>
    spawnSync("grep", ["-rlazF", "-e", text, dataDir], { encoding: "utf8" }).stdout;
  for (const text of spellings) assert.equal(holding(text), "");
  assert.notEqual(holding(ended.id), "", "the search finds what is there");
  const proof = createHash("sha256").update(value).digest("hex");
  assert.equal(holding(proof), "");
});

test("a deleted secret refuses the next start", async (t) => {
  const path = project(t, {
    "tasks/a.ts": task("a", '{ GONE: { env: "GONE" } }', "return 1;"),
  });
  await printed(["secret", "set", "GONE"], { input: "here for now" });
  const deployment = await deployed(path);
  const first = await run(deployment, "a");
  assert.equal(first.status, "succeeded", JSON.stringify(first.error));
  await printed(["secret", "delete", "GONE", "--yes"]);
  const refused = await helmr(["run", "a", "--deployment", deployment]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /secret/);
});
