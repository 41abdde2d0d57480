import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy, helmr } from "./lib/helmr.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";

interface Bad {
  readonly what: string;
  readonly files: Files;
  readonly layer: string;
  readonly kind: string;
  readonly says: RegExp[];
}

const build = "deployment_build";
const noSandbox =
  'import { task } from "@helmr/sdk";\n' +
  'export const a = task({ id: "a", run: async () => 1 } as any);\n';

/* What each message must name: the file, and what to do about it. */
const bad: Bad[] = [
  {
    what: "a syntax error",
    files: { "tasks/a.ts": "export const a = {\n  b: 1,,\n};\n" },
    layer: build,
    kind: "task_invalid",
    says: [/tasks\/a\.ts:2/],
  },
  {
    what: "an import that is no dependency",
    files: { "tasks/a.ts": { head: 'import "left-out-package";' } },
    layer: build,
    kind: "task_invalid",
    says: [/tasks\/a\.ts/, /left-out-package/, /package\.json|dependencies|install/],
  },
  {
    what: "two tasks of one id",
    files: { "tasks/b.ts": {} },
    layer: build,
    kind: "duplicate_task_id",
    says: [/tasks\/a\.ts/, /tasks\/b\.ts/, /another id/],
  },
  {
    what: "a task without a sandbox",
    files: { "tasks/a.ts": noSandbox },
    layer: build,
    kind: "task_invalid",
    says: [/tasks\/a\.ts/, /sandbox/],
  },
  {
    what: "a sandbox without an image",
    files: {
      "tasks/a.ts":
        'import { sandbox, task } from "@helmr/sdk";\n' +
        'export const a = task({ id: "a", sandbox: sandbox("s"), run: async () => 1 });\n',
    },
    layer: build,
    kind: "task_invalid",
    says: [/sandbox/, /image/],
  },
  {
    what: "a reserved mount path",
    files: { "tasks/a.ts": { sandbox: '.workspace("/run/app")' } },
    layer: build,
    kind: "task_invalid",
    says: [/tasks\/a\.ts/, /\/run/],
  },
  {
    what: "a config that exports nothing",
    files: { "helmr.config.ts": "export {};\n" },
    layer: build,
    kind: "config_invalid",
    says: [/helmr\.config\.ts/, /defineConfig/],
  },
  {
    what: "an image without node",
    files: { "tasks/a.ts": { from: "debian:bookworm-slim" } },
    layer: "image_preparation",
    kind: "node_missing",
    says: [/node/, /22\.18/],
  },
  {
    what: "an image with Node 20",
    files: { "tasks/a.ts": { from: "node:20-bookworm-slim" } },
    layer: "image_preparation",
    kind: "node_too_old",
    says: [/v?20\.\d+/, /22\.18/],
  },
];

for (const { what, files, layer, kind, says } of bad)
  test(`${what} fails the deployment as ${layer}/${kind}`, async (t) => {
    const { code, stderr, record, events } = await deploy(project(t, files));
    assert.equal(code, 1);
    assert.equal(record.status, "failed");
    assert.deepEqual([record.error.layer, record.error.failure_kind], [layer, kind]);
    for (const text of says) assert.match(record.error.message, text);
    assert.ok(stderr.includes(`helmr: ${layer.replace("_", " ")}: `), stderr);
    assert.equal(events.at(-1)?.kind, "deployment.failed");
  });

/* Found before anything is sent. */
const unsent: [string, Files, RegExp][] = [
  ["no config", { "helmr.config.ts": null }, /helmr\.config\.ts/],
  ["no package.json", { "package.json": null }, /package\.json/],
  ["a broken package.json", { "package.json": "{" }, /package\.json/],
];

for (const [what, files, says] of unsent)
  test(`a project with ${what} is refused before it is sent`, async (t) => {
    const { code, stdout, stderr } = await helmr(["deploy", project(t, files)]);
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(stderr, says);
  });
