// Kills the worker without warning in every phase of a build.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { api, dataDir, deploy, helmr, printed, run } from "./lib/helmr.ts";
import { leftovers } from "./lib/host.ts";
import { ready, server, worker } from "./lib/parts.ts";
import { project } from "./lib/project.ts";

const phases = ["unpack", "install", "evaluate", "image", "load", "seal"];

/* Two images at once, one of them from the other, with steps that leave something to lose. */
const task = (mark: string): string => `// ${mark}
import { cache, image, sandbox, task } from "@helmr/sdk";

const tools = image("tools").from("node:24-bookworm-slim")
  .run(["sh", "-c", "mkdir /tools && head -c 20000000 /dev/urandom > /tools/${mark}"]);
const main = image("main").from("node:24-bookworm-slim")
  .run(["sh", "-c", "cp -r /usr/local/lib/node_modules /srv && date +%N > /cache/${mark}"],
    { cache: [{ mountPath: "/cache", cache: cache("kills") }] })
  .copyFrom("/tools", tools, "/tools");

export const a = task({ id: "a", sandbox: sandbox("s").image(main), run: async () => "fine" });
`;

const newest = async (): Promise<string> => {
  const { body } = await api("/deployments?limit=1");
  return body.deployments[0]?.id ?? "";
};

/** Once the deployment after `before` has come to the phase. */
async function reached(before: string, phase: string): Promise<void> {
  for (;;) {
    const id = await newest();
    if (id !== before) {
      const { body } = await api(`/deployments/${id}/events?limit=200`);
      const here = ({ attributes }: any): boolean => attributes.phase === phase;
      if (body.events.some(here) || body.events.some(({ kind }: any) => /failed/.test(kind)))
        return;
    }
    await sleep(20);
  }
}

async function killIn(t: TestContext, phase: string): Promise<void> {
  const path = project(t, { "tasks/a.ts": task(`${phase}-${process.pid}`) });
  const before = await newest();
  const going = deploy(path);
  await reached(before, phase);
  await sleep(Math.random() * 300);
  await worker.end("SIGKILL");
  worker.start();
  const made = await going;
  assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error) + made.stderr);
  assert.equal((await run(made.id, "a")).status, "succeeded");
  const verdict = await helmr(["image", "verify", "--data-dir", dataDir]);
  assert.equal(verdict.code, 0, verdict.stdout + verdict.stderr);
}

before(async () => {
  server.start();
  await ready();
  worker.start();
});

after(async () => {
  await worker.end("SIGTERM");
  await server.end("SIGTERM");
});

for (const phase of phases)
  test(`a build whose worker is killed in ${phase} is built again`, (t) => killIn(t, phase));

test("the store can be cleaned up afterwards, and nothing is left of the killed", async () => {
  await printed(["image", "prune", "--yes", "--data-dir", dataDir]);
  const verdict = await helmr(["image", "verify", "--data-dir", dataDir]);
  assert.equal(verdict.code, 0, verdict.stdout + verdict.stderr);
  assert.equal(await worker.end("SIGTERM"), 0);
  assert.equal(await server.end("SIGTERM"), 0);
  assert.deepEqual(leftovers(dataDir), []);
});
