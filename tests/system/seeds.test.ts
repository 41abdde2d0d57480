// The images of the documents, as they are printed there: tools from npm and Debian, dependencies
// by bun with a cache that outlives the image. And the task of the documents, which asks a person.
import assert from "node:assert/strict";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after, before, suite, test } from "node:test";
import type { TestContext } from "node:test";
import { projects } from "./lib/helmr.ts";
import type { Deployed } from "./lib/helmr.ts";
import { buildLog, imageSteps } from "./lib/installation.ts";
import { outside } from "./lib/outside.ts";
import { giveBaseImages, startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";
import { noSandbox, parked, restart, succeeded } from "./lib/waiting.ts";

const { skip = false } = await outside();

const ran = (made: Deployed): string[] =>
  imageSteps(made)
    .filter(({ cached }) => !cached)
    .map(({ name }) => name);

/* How long bun says it took: the step's time is mostly that of its sandbox. */
const bunTime = (made: Deployed): string | undefined =>
  /packages? installed \[(.*?)\]/.exec(buildLog(made))?.[1];

interface Seed {
  readonly name: string;
  readonly cache: string;
  readonly task: string;
  readonly payload?: unknown;
  readonly output: Record<string, unknown>;
}

const seeds: Seed[] = [
  {
    name: "repo-agent",
    cache: "repo-agent-bun",
    task: "review-pr",
    payload: { prNumber: 123 },
    output: { cwd: "/workspace" },
  },
  {
    name: "agent",
    cache: "bun-install",
    task: "probe",
    output: { cwd: "/workspace", path: "/workspace", copied: ["agent.ts", "probe.ts"] },
  },
];

suite("the images of the documents", { skip }, () => {
  const scope = declaredScope();
  const folder = mkdtempSync(`${tmpdir()}/helmr-seeds-`);
  const first = new Map<string, Deployed>();
  let own: Own;
  let work = "";

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "1s" } });
    work = `${own.place.dataDir}/worker`;
  });
  after(() => rmSync(folder, { recursive: true }));

  /* Where bun keeps a package, on this host. */
  function kept(cache: string, name: string): string {
    const found = readdirSync(`${work}/caches`, { recursive: true, encoding: "utf8" }).filter(
      (path) => path.includes(`/${cache}/`) && path.split("/").at(-1)?.startsWith(`${name}@`),
    );
    assert.equal(found.length, 1, `${name} in the cache ${cache}: ${found.join(" ")}`);
    return `${work}/caches/${found[0]}`;
  }

  /* Whether a layer has this file with this text. */
  function isInLayer(path: string, text: string): boolean {
    return readdirSync(`${work}/layers`)
      .map((layer) => `${work}/layers/${layer}/${path}`)
      .some((file) => existsSync(file) && readFileSync(file, "utf8") === text);
  }

  /* Deploys while the package in bun's cache has a mark: it is in the image when bun used it. */
  async function deployMarked(t: TestContext, { name, cache }: Seed, ...flags: string[]) {
    const mark = `${Math.random()}`;
    writeFileSync(`${kept(cache, "picocolors")}/mark.txt`, mark);
    const again = await own.deployedWell(`${folder}/${name}`, ...flags);
    assert.ok(isInLayer("workspace/node_modules/picocolors/mark.txt", mark), "bun used its cache");
    const before = bunTime(first.get(name) as Deployed);
    t.diagnostic(`bun installed in ${before} with an empty cache, then in ${bunTime(again)}`);
    return again;
  }

  for (const seed of seeds) {
    test(`${seed.name} is built, and its task finds the tools`, async () => {
      cpSync(`${projects}${seed.name}`, `${folder}/${seed.name}`, { recursive: true });
      const made = await own.deployedWell(`${folder}/${seed.name}`);
      first.set(seed.name, made);
      const { tools, ...rest } = await own.output(made.id, seed.task, seed.payload);
      assert.deepEqual(rest, seed.output);
      for (const [at, says] of [/^git version/, /^ripgrep /, /^1\.3\.10$/].entries())
        assert.match(tools[at], says);
    });

    test(`a command in a workspace of ${seed.name} finds the tools, too`, async () => {
      const { id } = first.get(seed.name) as Deployed;
      const { workspaceId } = await own.run(id, seed.task, seed.payload);
      const script = "git --version; rg --version; bun --version; ls /opt/task 2>/dev/null; true";
      const said = await own.printed(["workspace", "exec", workspaceId, "--", "sh", "-c", script]);
      assert.match(said, /^git version [^]*^ripgrep [^]*^1\.3\.10$/m);
      if (seed.name === "agent") assert.match(said, /^agent\.ts\nprobe\.ts\n$/m);
      await own.printed(["workspace", "stop", workspaceId]);
    });

    test(`${seed.name} unchanged is not built again`, async () => {
      const again = await own.deployedWell(`${folder}/${seed.name}`);
      assert.ok(imageSteps(again).length > 0);
      assert.deepEqual(ran(again), []);
    });
  }

  const [repoAgent, agent] = seeds as [Seed, Seed];

  test("a step that both images begin with was built once", () => {
    const steps = ran(first.get(agent.name) as Deployed);
    assert.ok(steps.some((name) => name.includes("apt-get")));
    assert.ok(!steps.some((name) => name.includes("npm install")), steps.join("\n"));
  });

  test("a review waits, everything is stopped and started, and it is posted", async () => {
    const key = "sk-of-the-example";
    /* Its image is the one of repo-agent. */
    const version = await own.printed(["deploy", `${projects}review-pr`]);
    assert.match(version, /^\d{8}\.\d+\n$/);
    await own.printed(["secret", "set", "OPENAI_API_KEY"], { input: key });
    const payload = '{"owner":"OWNER","repo":"REPO","prNumber":123}';
    const secret = "OPENAI_API_KEY=vault:OPENAI_API_KEY";
    const args = ["run", "review-pr", "--payload-json", payload, "--secret", secret];
    const printed = await own.printed(args);
    assert.match(printed, /^[0-9a-f-]{36}\n$/);
    const id = printed.trim();
    const wait = await parked(own, id);
    await noSandbox(own);
    assert.equal(wait.metadata.prompt, "Post this review to GitHub?");
    await restart(own);
    await own.printed(["resume", "respond", wait.id, "--value", '{"approved":true}']);
    await succeeded(own, id);
    assert.equal(await own.printed(["diff", id]), "A review-summary.txt\n");
    const summary = `reviewed #123 in /workspace with a token of ${key.length} characters`;
    assert.match(await own.printed(["diff", id, "--patch"]), new RegExp(`^\\+${summary}$`, "m"));
    const { workspaceId } = await own.client.runs.retrieve(id);
    const read = ["workspace", "files", "read", workspaceId, "review-summary.txt"];
    assert.equal(await own.printed(read), `${summary}\n`);

    const second = (await own.printed(args)).trim();
    const { id: waitId } = await parked(own, second);
    await own.printed(["resume", "respond", waitId, "--value", '{"approved":false}']);
    await succeeded(own, second);
    assert.equal(await own.printed(["diff", second]), "");
  });

  test("after a change of a copied file only later steps run, with a warm cache", async (t) => {
    const manifest = JSON.parse(readFileSync(`${folder}/agent/package.json`, "utf8"));
    writeFileSync(`${folder}/agent/package.json`, JSON.stringify({ ...manifest, version: "2.0.0" }));
    const steps = ran(await deployMarked(t, agent));
    assert.equal(steps.length, 3, steps.join("\n"));
    for (const [at, text] of ["package.json", "bun install", "/opt/task"].entries())
      assert.ok(steps[at]?.includes(text), steps[at]);
  });

  test("a cache outlives the image store", async (t) => {
    await own.workers[0]?.end("SIGTERM");
    for (const part of ["oci", "layers"]) rmSync(`${work}/${part}`, { recursive: true });
    giveBaseImages(work);
    own.workers[0]?.start();
    await own.active();
    const steps = ran(await deployMarked(t, repoAgent, "--no-cache"));
    assert.ok(steps.some((name) => name.includes("npm install")));
  });

  test("no cache is in an image, and the store is whole", async () => {
    assert.ok(!readdirSync(`${work}/layers`).some((layer) => {
      const cache = `${work}/layers/${layer}/root/.bun/install/cache`;
      return existsSync(cache) && readdirSync(cache).length > 0;
    }));
    await own.stopClean();
  });
});
