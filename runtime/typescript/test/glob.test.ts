import assert from "node:assert/strict";
import { test } from "node:test";
import { globMatcher } from "../src/build/glob.ts";

const rows: [string, string, boolean][] = [
  ["**/*.test.*", "tasks/a.test.ts", true],
  ["**/*.test.*", "a.test.ts", true],
  ["**/*.test.*", "tasks/deep/er/a.test.ts", true],
  ["**/*.test.*", "tasks/test.ts", false],
  ["**/_*.*", "tasks/_shared.ts", true],
  ["**/_*.*", "tasks/un_shared.ts", false],
  ["tasks/*.ts", "tasks/a.ts", true],
  ["tasks/*.ts", "tasks/a/b.ts", false],
  ["tasks/**", "tasks/a/b.ts", true],
  ["./tasks/?.ts", "tasks/a.ts", true],
  ["tasks/?.ts", "tasks/ab.ts", false],
  ["tasks/?.ts", "tasks//.ts", false],
  ["a.ts", "aXts", false],
  ["a(b)+.ts", "a(b)+.ts", true],
];

for (const [pattern, path, wanted] of rows)
  test(`${pattern} ${wanted ? "matches" : "does not match"} ${path}`, () => {
    assert.equal(globMatcher([pattern])(path), wanted);
  });
