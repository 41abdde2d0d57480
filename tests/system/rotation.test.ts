// The master key is changed under a Helmr that works.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import { patience } from "./lib/engine.ts";
import { Installation } from "./lib/installation.ts";
import { freePort, giveBaseImages, ready } from "./lib/own.ts";
import { Part } from "./lib/part.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const binary = process.env.HELMR as string;
const value = `pw-${randomBytes(16).toString("hex")}`;

const source = `import { image, sandbox, task } from "@helmr/sdk";
export const tells = task({
  id: "tells",
  sandbox: sandbox("s").image(image("i").from("node:24-bookworm-slim")),
  secrets: { TOKEN: { env: "TOKEN" } },
  run: async () => process.env.TOKEN?.length ?? 0,
});
`;

suite("rotation of the master key", () => {
  const scope = declaredScope();
  const dataDir = mkdtempSync(`${tmpdir()}/helmr-rotation-`);
  const keys = `${dataDir}/keys`;
  let up: Part;
  let it: Installation;
  let deployment = "";

  async function start(): Promise<void> {
    up.start();
    await ready(it.place.url);
  }

  async function restart(): Promise<void> {
    assert.equal(await up.end("SIGTERM"), 0);
    await start();
  }

  /** Runs that were started while `during` went on; each of them must find its secret. */
  async function runsDuring(during: () => Promise<void>): Promise<number> {
    let isOver = false;
    const over = during().finally(() => (isOver = true));
    const started: string[] = [];
    while (!isOver || started.length === 0) {
      try {
        const handle = await it.client.tasks.trigger("tells", {}, { deploymentId: deployment });
        started.push(handle.id);
      } catch {
        // The server is between two lives.
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    await over;
    for (const id of started) {
      const ended = await it.client.runs.wait(id, { timeoutMs: patience(120_000) });
      assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
      assert.equal(ended.output, value.length);
    }
    return started.length;
  }

  const status = (): Promise<string> => it.printed(["key", "master", "status"]);

  before(async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const env = { HELMR_DATA_DIR: dataDir, HELMR_CONFIG_DIR: `${dataDir}/config` };
    giveBaseImages(`${dataDir}/worker`);
    const args = ["up", "--data-dir", dataDir, "--addr", new URL(url).host];
    const all = { ...process.env, ...env, HELMR_API_URL: url };
    up = new Part(binary, args, all, `${dataDir}/up.log`);
    scope.after(async () => {
      if (up.isRunning) await up.end("SIGTERM");
      rmSync(dataDir, { recursive: true, force: true });
    });
    it = new Installation({ binary, dataDir, url, apiKey: "", env });
    await start();
    while (!/^engine: /m.test(readFileSync(`${dataDir}/up.log`, "utf8")))
      await new Promise((resolve) => setTimeout(resolve, 100));
    const apiKey = (await it.printed(["key", "create", "rotation", "--permission", "all"])).trim();
    it = new Installation({ binary, dataDir, url, apiKey, env });
    await it.printed(["secret", "set", "TOKEN"], { input: value });
    const path = project(scope, { "tasks/tells.ts": source });
    deployment = await it.deployed(path);
  });

  test("runs that start meanwhile all find their secret", async () => {
    const n = await runsDuring(async () => {
      assert.match(await it.printed(["key", "master", "rotate"]), /^rotated: restart/);
      const early = await it.helmr(["secret", "reencrypt"]);
      assert.equal(early.code, 1);
      assert.match(early.stderr, /restart it first/);
      await restart();
      const said = await it.printed(["secret", "reencrypt", "--limit", "100"]);
      assert.match(said, /^reencrypted: 1\nremaining_old_key_count: 0\n$/);
    });
    assert.ok(n > 0);
    assert.match(await it.printed(["whoami"]), /owner/i);
    assert.match(await it.printed(["store", "verify"]), /^verified: [1-9]\d* objects.* 0 damaged$/m);
  });

  test("without the old key everything that was used goes on", async () => {
    await it.printed(["secret", "list"]);
    while (/^store .* old +blobs /m.test(await status()))
      await new Promise((resolve) => setTimeout(resolve, 200));
    renameSync(`${keys}/master.old`, `${dataDir}/former`);
    await restart();
    assert.ok((await runsDuring(async () => {})) > 0);
    await it.printed(["audit", "list"]);
  });

  test("the whole log is verified with the old key at hand", async () => {
    const alone = await it.helmr(["audit", "verify"]);
    assert.equal(alone.code, 1);
    assert.match(alone.stderr, /entry 1 is under key id [0-9a-f]{16}, which is not configured/);
    const env = { HELMR_MASTER_KEY_OLD: readFileSync(`${dataDir}/former`, "utf8").trim() };
    assert.match(await it.printed(["audit", "verify"], { env }), /^verified: \d+ entries/);
  });

  test("a wrong key is refused by name of the right one and damages nothing", async () => {
    assert.equal(await up.end("SIGTERM"), 0);
    const right = readFileSync(`${keys}/master`);
    writeFileSync(`${keys}/master`, await it.printed(["key", "generate"]));
    const { code, stderr } = await it.helmr(["server", "--addr", new URL(it.place.url).host]);
    assert.equal(code, 1);
    assert.match(stderr, /another master key \(key id [0-9a-f]{16}/);
    writeFileSync(`${keys}/master`, right);
    await start();
    assert.ok((await runsDuring(async () => {})) > 0);
    assert.ok(!existsSync(`${keys}/master.old`));
  });
});
