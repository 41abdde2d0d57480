// kill -9 of the worker in every phase of a build: the deployment is made all the same, and the
// image store is whole.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { before, suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { blobs, startProxy } from "./lib/faults.ts";
import type { Proxy } from "./lib/faults.ts";
import type { Deployed, EventRecord } from "./lib/installation.ts";
import { outside } from "./lib/outside.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import type { Files } from "./lib/project.ts";
import { startRegistry, withoutRegistry } from "./lib/registry.ts";
import { declaredScope } from "./lib/scope.ts";
import { baseImages, makeImage, putImage, sha256 } from "./lib/store.ts";

const rounds = Number(process.env.BUILD_KILL_ROUNDS ?? 0);
const node = "node:24-bookworm-slim";
const mib = 1024 * 1024;

/* Two images at once, one of them from the other, with steps that leave something to lose. */
const twoImages = (mark: string): string => `
import { cache, image, sandbox, task } from "@helmr/sdk";

const tools = image("tools").from("${node}")
  .run(["sh", "-c", "mkdir /tools && head -c 20000000 /dev/urandom > /tools/${mark}"]);
const main = image("main").from("${node}")
  .run(["sh", "-c", "cp -r /usr/local/lib/node_modules /srv && date +%N > /cache/${mark}"],
    { cache: [{ mountPath: "/cache", cache: cache("kills") }] })
  .copyFrom("/tools", tools, "/tools");

export const a = task({ id: "a", sandbox: sandbox("s").image(main), run: async () => "fine" });
`;

/* Bytes that no step has seen before and that take their time. */
const bulk = (): Files => ({ "data/bulk": randomBytes(24 * mib) });
const slowImport = "await new Promise((resolve) => setTimeout(resolve, 1500));";
const copies = {
  head: `import { source } from "@helmr/sdk";`,
  steps: `.copy("/srv/data", source.directory("./data"))`,
};

interface Phase {
  readonly what: string;
  readonly files: () => Files;
  readonly isHere: (attributes: Record<string, any>) => boolean;
  readonly skip?: string | undefined;
}

const { skip: noPackages } = await outside();
const inPhase = (name: string) => (attributes: Record<string, any>) => attributes.phase === name;
const inStep = (text: string) => (attributes: Record<string, any>) =>
  (attributes.name ?? "").startsWith(text);

const phases: Phase[] = [
  { what: "unpack", files: bulk, isHere: inPhase("unpack") },
  {
    what: "install",
    files: () => ({
      "package.json": JSON.stringify({
        private: true,
        type: "module",
        dependencies: { picocolors: "1.1.1" },
      }),
    }),
    isHere: inPhase("install"),
    skip: noPackages,
  },
  {
    what: "evaluate",
    files: () => ({ "tasks/a.ts": { head: slowImport } }),
    isHere: inPhase("evaluate"),
  },
  {
    what: "a run step",
    files: () => ({
      "tasks/a.ts": { steps: `.run(["sh", "-c", "sleep 2; echo ${randomUUID()} > /srv/made"])` },
    }),
    isHere: inStep("RUN"),
  },
  {
    what: "a copy step",
    files: () => ({ ...bulk(), "tasks/a.ts": copies }),
    isHere: inStep("COPY"),
  },
  {
    what: "the steps of two images",
    files: () => ({ "tasks/a.ts": twoImages(randomUUID()) }),
    isHere: inStep("RUN"),
  },
  {
    what: "load",
    files: () => ({ "tasks/a.ts": { head: slowImport } }),
    isHere: inPhase("load"),
  },
  { what: "seal", files: bulk, isHere: inPhase("seal") },
];

const accept = { accept: "application/vnd.oci.image.manifest.v1+json" };

/* One more layer on an image of a registry; gives its digest. */
async function putOnTop(origin: string, name: string): Promise<string> {
  const [repository, tag] = name.split(":");
  const base = `${origin}/v2/${repository}`;
  const below: any = await (await fetch(`${base}/manifests/${tag}`, { headers: accept })).json();
  const config: any = await (await fetch(`${base}/blobs/${below.config.digest}`)).json();
  const top = makeImage([mib]);
  const { layers, config: topConfig } = JSON.parse(top.manifest);
  const topDiffs = JSON.parse((top.blobs.get(topConfig.digest) as Buffer).toString()).rootfs;
  config.rootfs.diff_ids.push(...topDiffs.diff_ids);
  const text = JSON.stringify(config);
  const manifest = {
    ...below,
    config: { ...below.config, digest: sha256(text), size: text.length },
    layers: [...below.layers, ...layers],
  };
  await putImage(origin, name, {
    digest: "",
    manifest: JSON.stringify(manifest),
    blobs: new Map([
      [layers[0].digest, top.blobs.get(layers[0].digest) as Buffer],
      [sha256(text), Buffer.from(text)],
    ]),
  });
  return layers[0].digest;
}

suite("a worker killed in the middle of a build", () => {
  const scope = declaredScope();
  let own: Own;

  before(async () => {
    own = await startOwn(scope);
  });

  async function restart(): Promise<void> {
    await own.workers[0]?.end("SIGKILL");
    own.workers[0]?.start();
  }

  /** Whatever was killed, the deployment is as good as any. */
  async function isGood(made: Deployed): Promise<void> {
    assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error) + own.log);
    assert.equal(made.code, 0, made.stderr);
    assert.equal(await own.output(made.id, "a"), "fine");
    await own.verified();
  }

  for (const { what, files, isHere, skip } of phases)
    test(`during ${what}`, { skip: skip ?? false }, async (t) => {
      let killed: Promise<void> | undefined;
      let last: Record<string, any> = {};
      const see = ({ kind, attributes }: EventRecord): void => {
        if (kind !== "deployment.build.step") return;
        if (!killed) last = attributes;
        if (attributes.status === "started" && isHere(attributes)) killed ??= restart();
      };
      const made = await own.watch(project(t, files()), see);
      assert.ok(killed, "the phase was never seen");
      await killed;
      t.diagnostic(`killed after: ${last.phase} ${last.name ?? ""} ${last.status}`);
      await isGood(made);
    });

  test("while it brings a base image", { skip: withoutRegistry() ?? false }, async (t) => {
    const registry = await startRegistry(t);
    const proxy: Proxy = await startProxy(t, registry.host);
    await baseImages.printed("push", node, `${registry.host}/library/node:mine`);
    const added = await putOnTop(registry.origin, "library/node:mine");
    let killed: Promise<void> | undefined;
    proxy.use(
      blobs((call) => {
        if (!call.path.includes(added)) return call.pass();
        // The layer is under way, and stays so until the worker is gone.
        killed ??= restart();
        void killed.then(() => call.pass());
      }),
    );
    const from = `${proxy.host}/library/node:mine`;
    const made = await own.deploy(project(t, { "tasks/a.ts": { from } }));
    assert.ok(killed, "the layer was never asked for");
    await isGood(made);
  });

  test(`${rounds} times at random`, { skip: rounds === 0 }, async (t) => {
    for (let round = 0; round < rounds; round++) {
      const steps = `.run(["sh", "-c", "sleep 1; echo ${randomUUID()} > /srv/made"])`;
      const files = { ...bulk(), "tasks/a.ts": { head: copies.head, steps: copies.steps + steps } };
      const building = own.deploy(project(t, files));
      await sleep(Math.random() * 8000);
      await restart();
      await isGood(await building);
    }
  });

  test("leaves nothing behind after the next stop", () => own.stopClean());
});
