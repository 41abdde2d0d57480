import assert from "node:assert/strict";
import { test } from "node:test";
import { dataDir } from "./lib/helmr.ts";
import { leftovers } from "./lib/host.ts";

test("nothing is left on the host when Helmr has stopped", () => {
  assert.deepEqual(leftovers(dataDir), []);
});
