// A secret while its run lives: on no disk, not in the server, in the worker only for redaction.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { patience } from "./lib/engine.ts";
import { client, dataDir, deployed, printed, said } from "./lib/helmr.ts";
import { partsOf } from "./lib/host.ts";
import { project } from "./lib/project.ts";

const value = `core-${randomBytes(30).toString("base64url")}`;

/** The characters of its base64 that do not depend on what stands before or behind it. */
function base64(before: number): string {
  const text = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]).toString("base64");
  const whole = Math.floor(((before + value.length) * 8) / 6);
  return text.slice([0, 2, 3][before], whole);
}

const spellings: Record<string, string> = {
  plain: value,
  "base64 at 0": base64(0),
  "base64 at 1": base64(1),
  "base64 at 2": base64(2),
  hex: Buffer.from(value).toString("hex"),
  HEX: Buffer.from(value).toString("hex").toUpperCase(),
};

/** The spellings that a file or a tree holds. */
function held(path: string): string[] {
  const patterns = Object.values(spellings).flatMap((text) => ["-e", text]);
  // By bytes of zero and not by lines: the disk of a sandbox is one line of many gigabytes.
  const { status, stdout } = spawnSync("grep", ["-rohazF", ...patterns, path], { encoding: "utf8" });
  assert.ok(status === 0 || status === 1, `grep cannot read ${path}`);
  const found = new Set(stdout.split("\0"));
  return Object.keys(spellings).filter((name) => found.has(spellings[name] ?? ""));
}

/** What a core of a process holds, or undefined where nobody may make one. */
function inCore(t: TestContext, pid: number): string[] | undefined {
  const folder = mkdtempSync(join(tmpdir(), "helmr-core-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // With -a also memory that is marked as not to be dumped.
  const { status } = spawnSync("gcore", ["-a", "-o", join(folder, "core"), String(pid)]);
  const [file] = readdirSync(folder);
  if (status !== 0 || !file) return undefined;
  const found = held(join(folder, file));
  rmSync(join(folder, file));
  return found;
}

const source = `import { image, sandbox, task } from "@helmr/sdk";
import { readFileSync } from "node:fs";

export const holder = task({
  id: "holder",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  secrets: { CORE: { env: "CORE" }, CORE_FILE: { file: "/run/secrets/core" } },
  run: async () => {
    const file = readFileSync("/run/secrets/core", "utf8");
    console.log(file === process.env.CORE ? "holding both" : "holding nothing");
    await new Promise((done) => setTimeout(done, 120_000));
  },
});
`;

test("a live secret is in no file and not in the server's memory", async (t) => {
  if (spawnSync("gcore", ["--version"]).error) return t.skip("gcore (package gdb) is not installed");
  for (const name of ["CORE", "CORE_FILE"]) await printed(["secret", "set", name], { input: value });
  const deploymentId = await deployed(project(t, { "tasks/a.ts": source }));
  const run = await client.tasks.trigger("holder", undefined, { deploymentId });
  await said(run.id, "holding both");

  const { server, worker } = partsOf(Number(process.env["SYSTEM_UP_PID"]));
  const inServer = inCore(t, server);
  if (!inServer) return t.skip("gcore may not look into processes here");
  assert.deepEqual(inServer, [], "the server's memory");
  assert.deepEqual(held(dataDir), [], "the data directory: database, objects, the worker's folders");
  // What gives it to the sandbox and finds it in output must have it.
  assert.ok(inCore(t, worker)?.includes("plain"), "the search finds what is there");

  await client.runs.cancel(run, { force: true });
  await client.runs.wait(run, { timeoutMs: patience(60_000) });
  // The run is over for everybody before the worker has taken its sandbox down.
  let left = inCore(t, worker);
  for (const until = Date.now() + patience(60_000); left?.length && Date.now() < until; )
    left = inCore(t, worker);
  assert.deepEqual(left, [], "the worker, after the run");
  assert.deepEqual(held(dataDir), [], "the data directory, after the run");
});
