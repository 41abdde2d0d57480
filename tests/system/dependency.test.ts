import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { deploy, projects, run } from "./lib/helmr.ts";
import { outside } from "./lib/outside.ts";

/* The settings of this machine's npm, for one that knows nothing of the machine. */
function npmrc(registry: string, authorities = ""): string {
  const all = authorities.match(/-----BEGIN[^]*?-----END CERTIFICATE-----/g) ?? [];
  const lines = all.map((text) => `ca[]=${JSON.stringify(text)}`);
  return [`registry=${registry}`, ...lines, ""].join("\n");
}

test("a dependency is installed at build time and imported by the task", async (t) => {
  const { registry, authorities, skip } = await outside();
  if (skip) return t.skip(skip);
  const root = mkdtempSync(`${tmpdir()}/helmr-dependency-`);
  t.after(() => rmSync(root, { recursive: true }));
  cpSync(`${projects}dependency`, root, { recursive: true });
  writeFileSync(`${root}/.npmrc`, npmrc(registry, authorities));
  const made = await deploy(root);
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
  const ended = await run(made.id, "paints");
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  assert.deepEqual(ended.output, {
    red: "\u001b[31mstop\u001b[39m",
    from: "file:///opt/helmr/deps/node_modules/picocolors/picocolors.js",
  });
});
