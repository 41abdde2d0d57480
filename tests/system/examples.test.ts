// Every example, by the commands of its README.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import { binary, examples, url } from "./lib/helmr.ts";
import { outside } from "./lib/outside.ts";
import { blocksOf, follow, matches } from "./lib/readme.ts";

const { skip } = await outside();
/* Those that show how something from outside gets into an image. */
const needNetwork = new Set(["cli-tooling", "dependency-cache"]);

const folder = mkdtempSync(`${tmpdir()}/helmr-examples-`);
mkdirSync(`${folder}/bin`);
symlinkSync(binary, `${folder}/bin/helmr`);
/* Where bridges find the SDK. */
symlinkSync(new URL("../../node_modules", import.meta.url).pathname, `${folder}/node_modules`);
after(() => rmSync(folder, { recursive: true }));

const names = readdirSync(examples, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

test("every example is in the list of examples", () => {
  const list = readFileSync(`${examples}README.md`, "utf8");
  for (const name of names) assert.ok(list.includes(`[${name}](${name}/README.md)`), name);
});

test("a block that prints something else is noticed", async () => {
  assert.ok(matches("a …\n", "a b c\n") && !matches("a …\n", "a b\nc\n") && !matches("a.\n", "ab\n"));
  await assert.rejects(follow([{ commands: "echo one\n", prints: "two\n" }], folder, {}), /not\ntwo/);
  await assert.rejects(follow([{ commands: "echo one\nfalse\n" }], folder, {}), /echo one/);
});

for (const name of names) {
  const options = needNetwork.has(name) && skip !== undefined ? { skip } : {};

  test(`${name} does what its README says`, options, async () => {
    const blocks = blocksOf(`${examples}${name}/README.md`);
    assert.ok(blocks.length > 0, "its README has commands to run");
    cpSync(`${examples}${name}`, `${folder}/${name}`, { recursive: true });
    const PATH = `${folder}/bin:${process.env.PATH}`;
    await follow(blocks, `${folder}/${name}`, { PATH, HELMR_API_URL: url });
  });
}
