// A build secret is there for one step and can be found nowhere afterwards.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import { gzipSync } from "node:zlib";
import { formsOf, grepTree } from "./lib/grep.ts";
import { buildLog, imageSteps } from "./lib/installation.ts";
import type { Deployed } from "./lib/installation.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const value = `pw-${randomBytes(24).toString("hex")}/+!`;
const name = "DEPLOY_KEY";
const path = "/run/secrets/deploy-key";

/* A step that runs a shell line with the secret. */
const withSecret = (line: string, secret = name): string =>
  `.run(["sh", "-ceu", ${JSON.stringify(line)}],
     { secrets: [{ mountPath: "${path}", secret: "${secret}" }] })`;

const uses = [
  `sha256sum < ${path}`,
  `stat -c 'mode %a owner %u:%g' ${path}`,
  `echo "it is $(cat ${path})"`,
  `echo "encoded $(base64 -w0 ${path})"`,
  `for half in 1 2; do head -c $((half * 20)) ${path} | tail -c 20; sleep 0.3; done`,
  `echo; echo made > /srv/made`,
].join("; ");

suite("a build secret", () => {
  const scope = declaredScope();
  let own: Own;
  const made: Deployed[] = [];
  const steps =
    withSecret(uses) +
    `.run(["sh", "-c", "test ! -e ${path} && echo it is gone"]).user("1234:1234")` +
    withSecret(`stat -c 'then %a %u:%g' ${path}`);
  const returns = `[existsSync("${path}"), existsSync("/srv/made")]`;
  const head = 'import { existsSync } from "node:fs";';

  before(async () => {
    own = await startOwn(scope);
  });

  test("that is not stored is asked for by name", async (t) => {
    const failed = await own.deploy(project(t, { "tasks/a.ts": { steps } }));
    assert.equal(failed.code, 1);
    assert.match(failed.record.error.message, new RegExp(name));
    assert.match(failed.record.error.message, /helmr secret set|not stored|missing|no secret/i);
  });

  test("is a file of the step, and the log shows everything but its value", async (t) => {
    assert.equal(await own.printed(["secret", "set", name], { input: value }), `${name}\n`);
    const good = await own.deployedWell(project(t, { "tasks/a.ts": { steps, returns, head } }));
    made.push(good);
    const log = buildLog(good);
    assert.ok(log.includes(createHash("sha256").update(value).digest("hex")), log);
    assert.match(log, /mode 400 owner 0:0/);
    assert.match(log, /it is \[redacted\]/);
    assert.match(log, /encoded \[redacted\]/);
    assert.match(log, /it is gone/);
    assert.match(log, /then 400 1234:1234/);
    assert.deepEqual(await own.output(good.id, "a"), [false, true]);
  });

  test("may change without its step being built again", async (t) => {
    await own.printed(["secret", "set", name], { input: `${value} and more` });
    const again = await own.deployedWell(project(t, { "tasks/a.ts": { steps, returns, head } }));
    made.push(again);
    assert.deepEqual(
      imageSteps(again).filter(({ cached }) => !cached),
      [],
    );
    await own.printed(["secret", "set", name], { input: value });
  });

  /* What a step must not leave behind. */
  const leaks: [string, string, string][] = [
    ["as it is", `cp ${path} /srv/leak`, "/srv/leak"],
    ["in the middle of a file", `echo "key=$(cat ${path})" >> /etc/profile`, "/etc/profile"],
    ["as base64", `base64 -w0 ${path} > /opt/coded`, "/opt/coded"],
  ];

  for (const [how, line, where] of leaks)
    test(`that a step writes ${how} fails the build and is named with the file`, async (t) => {
      const failed = await own.deploy(project(t, { "tasks/a.ts": { steps: withSecret(line) } }));
      made.push(failed);
      assert.equal(failed.code, 1);
      assert.equal(failed.record.error.failure_kind, "image_build_failed");
      assert.ok(failed.record.error.message.includes(name), failed.record.error.message);
      assert.ok(failed.record.error.message.includes(where), failed.record.error.message);
    });

  test("where the image has a directory fails its step", async (t) => {
    const over = `.run(["true"], { secrets: [{ mountPath: "/usr/bin", secret: "${name}" }] })`;
    const { record } = await own.deploy(project(t, { "tasks/a.ts": { steps: over } }));
    assert.equal(record.status, "failed");
    assert.match(record.error.message, /\/usr\/bin: the image has a directory there/);
  });

  test("together with a cache is refused", async (t) => {
    const both = `.run(["true"], { cache: [{ mountPath: "/c", cache: cache("c") }],
      secrets: [{ mountPath: "${path}", secret: "${name}" }] })`;
    const files = { "tasks/a.ts": { steps: both, head: 'import { cache } from "@helmr/sdk";' } };
    const { code, record } = await own.deploy(project(t, files));
    assert.equal(code, 1);
    assert.match(record.error.message, /cache/);
    assert.match(record.error.message, /secret/);
  });

  const forms = formsOf(value);

  test("is in no answer of the API and in no output", async () => {
    const lists = ["/deployments?limit=100", "/secrets", `/secrets/${name}`, "/runs?limit=100"];
    const answers = await Promise.all(lists.map((list) => own.api(list)));
    const texts = [
      ...made.map((one) => JSON.stringify(one)),
      ...answers.map(({ body }) => JSON.stringify(body ?? null)),
      await own.printed(["secret", "list"]),
      await own.printed(["secret", "get", name]),
    ];
    for (const text of texts)
      for (const form of forms)
        assert.ok(!text.includes(form), `${form} in ${text.slice(0, 200)}`);
  });

  test("can be found where it is, or this test would show nothing", async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/helmr-grep-`);
    t.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(`${folder}/packed`, gzipSync(`some text ${value}`));
    writeFileSync(`${folder}/coded`, Buffer.from(`ab${value}cd`).toString("base64"));
    writeFileSync(`${folder}/plain`, "nothing at all");
    assert.deepEqual(
      grepTree(folder, forms).files.map((path) => path.slice(folder.length + 1)),
      ["coded", "packed"],
    );
  });

  test("is in no byte of the data directory", async (t) => {
    const alive = grepTree(own.place.dataDir, forms);
    await own.stopClean();
    const stopped = grepTree(own.place.dataDir, forms);
    t.diagnostic(`${alive.searched} files, ${alive.inflated} of them compressed`);
    assert.ok(alive.inflated > 3);
    assert.deepEqual([...alive.files, ...stopped.files], []);
  });
});
