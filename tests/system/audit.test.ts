import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import { apiKey, dataDir, deployed, helmr, printed, projects, run } from "./lib/helmr.ts";

interface Entry {
  readonly sequence: number;
  readonly action: string;
  readonly subject?: string;
  readonly outcome: string;
  readonly environment_id?: string;
  readonly request_id?: string;
  readonly actor: { readonly type: string; readonly id: string; readonly name?: string };
}

const folder = mkdtempSync(`${tmpdir()}/helmr-audit-`);
after(() => rmSync(folder, { recursive: true, force: true }));

const list = async (...filters: string[]): Promise<Entry[]> =>
  JSON.parse(await printed(["audit", "list", "--json", ...filters])).entries;

const verify = (...args: string[]) => helmr(["audit", "verify", ...args, "--data-dir", dataDir]);

/** The exported lines with some change, as a file to verify. */
async function verifyChanged(change: (lines: string[]) => string[]): Promise<string> {
  const path = `${folder}/changed.jsonl`;
  const lines = readFileSync(`${folder}/whole.jsonl`, "utf8").trimEnd().split("\n");
  writeFileSync(path, `${change(lines).join("\n")}\n`);
  const { code, stderr } = await verify(path);
  assert.equal(code, 1);
  return stderr;
}

test("what people and keys do is in the log", async () => {
  await printed(["secret", "set", "AUDITED", "a value"]);
  const deployment = await deployed(`${projects}tasks`);
  const ended = await run(deployment, "shell", { scripts: { one: "echo 1" } });
  const [set] = await list("--action", "secret.set", "--limit", "1");
  assert.equal(set?.subject, "AUDITED");
  assert.equal(set?.outcome, "ok");
  assert.equal(set?.actor.type, "user");
  assert.match(set?.request_id ?? "", /^[0-9a-f-]{36}$/);
  const starts = await list("--action", "run.create");
  const start = starts.find(({ subject }) => subject === ended.id);
  assert.equal(start?.actor.type, "key");
  assert.ok(start?.environment_id);
  const made = await list("--action", "deployment.create");
  assert.ok(made.some(({ subject }) => subject === deployment));
  assert.doesNotMatch(await printed(["audit", "export"]), /a value/);
});

test("a key may not read the log, and that is in the log", async () => {
  const refused = await fetch(`${process.env.HELMR_API_URL}/api/audit`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  assert.equal(refused.status, 403);
  const [denied] = await list("--action", "request.denied", "--limit", "1");
  assert.equal(denied?.outcome, "denied");
  assert.equal(denied?.subject, "/api/audit");
});

test("the log of a server that runs is verified beside it", async () => {
  const { code, stdout, stderr } = await verify();
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^verified: \d+ entries$/m);
});

test("an exported file is verified, and every change of it is named", async () => {
  writeFileSync(`${folder}/whole.jsonl`, await printed(["audit", "export"]));
  assert.equal((await verify(`${folder}/whole.jsonl`)).code, 0);
  assert.match(await verifyChanged((lines) => lines.slice(1)), /entry 1 was removed/);
  assert.match(await verifyChanged((lines) => lines.toSpliced(2, 1)), /entry 3 was removed/);
  assert.match(await verifyChanged((lines) => lines.slice(0, 4)), /entry 5 was cut off/);
  assert.match(
    await verifyChanged((lines) => lines.with(3, (lines[3] as string).replace('"ok"', '"denied"'))),
    /entry 4 was changed/,
  );
});
