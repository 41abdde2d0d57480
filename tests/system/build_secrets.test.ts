import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { dataDir, deploy, helmr, run } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const value = `marker-${randomBytes(18).toString("base64url")}`;
const secrets = '{ secrets: [{ mountPath: "/run/secrets/pass", secret: "BUILD_PASS" }] }';
const file = "/run/secrets/pass";

const task = `import { existsSync, readFileSync } from "node:fs";
import { image, sandbox, task } from "@helmr/sdk";

export const look = task({
  id: "look",
  sandbox: sandbox("s").image(
    image("with-secrets")
      .from("node:24-bookworm-slim")
      .run(["sh", "-c", "cat ${file}; echo; base64 -w0 ${file}; echo; ls -ln ${file}; " +
        "sha256sum < ${file} > /etc/proof"], ${secrets})
      .user("1234:1234")
      .run(["sh", "-c", "sha256sum < ${file} | cut -c1-9 && ls -ln ${file}"], ${secrets}),
  ),
  run: async () => ({
    proof: readFileSync("/etc/proof", "utf8").slice(0, 64),
    isThere: existsSync("/run/secrets"),
  }),
});
`;

/** Files of the data directory that hold the text. */
const holding = (text: string): string =>
  spawnSync("grep", ["-rlaF", "-e", text, dataDir], { encoding: "utf8" }).stdout;

test("a step uses a secret that is nowhere afterwards", async (t) => {
  const path = project(t, { "tasks/a.ts": task });
  const set = await helmr(["secret", "set", "BUILD_PASS"], { cwd: path, input: value });
  assert.equal(set.code, 0, set.stderr);

  const made = await deploy(path, "--no-cache");
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  const told = JSON.stringify(made);
  assert.match(told, /\[redacted\]/);
  assert.match(told, /-r-------- 1 0 0 31 /, "root's for a step of root");
  assert.match(told, /-r-------- 1 1234 1234 31 /, "the user's for a step of another");
  const ended = await run(made.id, "look");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  const proof = createHash("sha256").update(value).digest("hex");
  assert.deepEqual(ended.output, { proof, isThere: false });
  assert.ok(told.includes(proof.slice(0, 9)));

  const encoded = Buffer.from(value).toString("base64").slice(0, 40);
  for (const text of [value, encoded]) {
    assert.ok(!told.includes(text));
    assert.equal(holding(text), "");
  }
  assert.notEqual(holding(proof), "", "the search finds what is there");
});

test("a secret that is not stored is named", async (t) => {
  const steps = '.run(["true"], { secrets: [{ mountPath: "/run/x", secret: "NOT_STORED" }] })';
  const { record } = await deploy(project(t, { "tasks/a.ts": { steps } }));
  assert.equal(record.status, "failed");
  assert.match(record.error.message, /NOT_STORED/);
});

test("a secret where the image has a directory fails its step", async (t) => {
  const steps = '.run(["true"], { secrets: [{ mountPath: "/usr/bin", secret: "BUILD_PASS" }] })';
  const { record } = await deploy(project(t, { "tasks/a.ts": { steps } }));
  assert.equal(record.status, "failed");
  assert.match(record.error.message, /\/usr\/bin: the image has a directory there/);
});
