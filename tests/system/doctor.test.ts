import assert from "node:assert/strict";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, test } from "node:test";
import { helmr, printed } from "./lib/helmr.ts";

const folder = mkdtempSync(`${tmpdir()}/helmr-doctor-`);
const doctor = ["doctor", "--data-dir", folder];

after(() => rmSync(folder, { recursive: true }));

const canOpenKvm = (): boolean => {
  try {
    accessSync("/dev/kvm", constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
};

test("the doctor finds a machine that can run sandboxes", async () => {
  const { code, stdout, stderr } = await helmr(doctor);
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /^ok\s+.*gvisor/m);
  assert.doesNotMatch(stdout, /^fail/m);
});

test("the doctor says of KVM only what a guest has proved", async () => {
  const line = (await printed(doctor)).split("\n").find((text) => text.includes("/dev/kvm")) ?? "";
  if (canOpenKvm()) assert.match(line, /^(ok|warn)\s/);
  else assert.match(line, /^warn\s/);
  assert.ok(line.startsWith("ok") === /ran|boots|works|started/.test(line), line);
});

test("the doctor's findings are one JSON document", async () => {
  const report = JSON.parse(await printed([...doctor, "--json"]));
  assert.ok(Array.isArray(report.checks), JSON.stringify(report));
});
