// Base images of a registry of its own.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { dataDir, deploy, printed, run } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";

const skip = spawnSync("docker-registry", ["--version"]).error && "docker-registry is not installed";
const folder = mkdtempSync(`${tmpdir()}/helmr-registry-`);
let host = "";
let stop = (): void => {};

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const taken = createServer().listen(0, "127.0.0.1", () => {
      const { port } = taken.address() as AddressInfo;
      taken.close(() => resolve(port));
    });
  });

const answers = async (): Promise<boolean> => {
  try {
    return (await fetch(`http://${host}/v2/`)).ok;
  } catch {
    return false;
  }
};

before(async () => {
  if (skip) return;
  host = `127.0.0.1:${await freePort()}`;
  writeFileSync(
    `${folder}/config.yml`,
    `version: 0.1\nlog: { level: error }\nstorage: { filesystem: { rootdirectory: ${folder}/data } }\n` +
      `http: { addr: "${host}" }\n`,
  );
  const child = spawn("docker-registry", ["serve", `${folder}/config.yml`], { stdio: "ignore" });
  stop = () => child.kill();
  while (!(await answers())) await sleep(50);
});

after(() => {
  stop();
  rmSync(folder, { recursive: true });
});

const base = (): string => `${host}/base/node:24`;
const store = ["--data-dir", dataDir];

test("a base is pulled, and a tag means one image for a whole build", { skip }, async (t) => {
  await printed(["image", "push", "node:24-bookworm-slim", base(), ...store]);
  const path = project(t, { "tasks/a.ts": { from: base(), steps: '.run(["node", "--version"])' } });
  const made = await deploy(path);
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  const log = made.events
    .filter(({ kind }) => kind === "deployment.build.log")
    .map(({ attributes }) => attributes.text)
    .join("");
  assert.match(log, new RegExp(`^${base().replaceAll(".", "\\.")} is sha256:[0-9a-f]{64}$`, "m"));
  assert.equal((await run(made.id, "a")).status, "succeeded");
});

test("an image that no registry has is said to be missing", { skip }, async (t) => {
  const from = `${host}/base/nobody:1`;
  const { record } = await deploy(project(t, { "tasks/a.ts": { from } }));
  assert.equal(record.status, "failed");
  assert.match(record.error.message, /base\/nobody:1/);
  assert.doesNotMatch(record.error.message, /made here/);
});
