import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

function compile(project: string): void {
  const { status, stdout } = spawnSync(
    "tsc",
    ["--noEmit", "--project", join(import.meta.dirname, project)],
    {
      encoding: "utf8",
    },
  );
  assert.equal(status, 0, stdout);
}

test("the types infer what they should and refuse what they should", () => {
  compile("..");
});

test("the documents' sandbox example compiles under strict against the built package", () => {
  compile("acceptance");
});
