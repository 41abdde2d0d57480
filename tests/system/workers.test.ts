// Several workers on one server: what one builds another runs, steps are built once, and a build
// outlives its worker.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import { imageSteps } from "./lib/installation.ts";
import type { Deployed, EventRecord } from "./lib/installation.ts";
import { startOwn, until } from "./lib/own.ts";
import type { Own, Worker } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const head = 'import { readFileSync } from "node:fs";';

/* A step that takes a while and never makes the same twice. */
const unlike = (what: string, seconds: number): string =>
  `.run(["sh", "-c", "sleep ${seconds}; od -An -N16 -tx4 /dev/urandom > /srv/${what}"])`;

const reads = (what: string): string => `readFileSync("/srv/${what}", "utf8")`;

/* Whether an image step begins whose text has this word. */
const begins = ({ kind, attributes }: EventRecord, word: string): boolean =>
  kind === "deployment.build.step" &&
  attributes.status === "started" &&
  (attributes.name ?? "").includes(word);

const builders = ({ events }: Deployed): string[] =>
  events
    .filter(({ kind }) => kind === "deployment.building")
    .map(({ attributes }) => attributes.worker_id);

suite("two workers that build and one that runs", () => {
  const scope = declaredScope();
  let own: Own;
  const names = new Map<string, string>();

  before(async () => {
    const build = { HELMR_WORKER_ROLES: "build" };
    own = await startOwn(scope, {
      env: { HELMR_LEASE_TTL: "10s" },
      workers: [
        { name: "builder-1", env: build },
        { name: "builder-2", env: build },
        { name: "runner", env: { HELMR_WORKER_ROLES: "run" }, isBare: true },
      ],
    });
    const { body } = await own.api("/workers", { key: own.session });
    for (const { id, resource_id } of body.workers) names.set(id, resource_id);
  });

  test("what one builds another runs", async (t) => {
    const files = { "tasks/a.ts": { steps: unlike("one", 0), returns: reads("one"), head } };
    const made = await own.deployedWell(project(t, files));
    const { id, output, status, error } = await own.run(made.id, "a");
    assert.equal(status, "succeeded", JSON.stringify(error));
    assert.match(String(output), /^( [0-9a-f]{8}){4}\n$/);
    const lease = (await own.runEvents(id)).find(({ kind }) => kind === "run.lease_started");
    assert.equal(names.get(lease?.attributes.worker_id), "runner");
    assert.match(names.get(builders(made)[0] as string) ?? "", /^builder-/);
  });

  test("a step of two builds at once is done once", async (t) => {
    const files = { "tasks/a.ts": { steps: unlike("two", 3), returns: reads("two"), head } };
    // The same archive would be the same deployment.
    const paths = ["one", "two"].map((notes) => project(t, { ...files, notes }));
    const both = await Promise.all(paths.map((path) => own.deployedWell(path)));
    assert.ok(both[0] && both[1]);
    assert.notEqual(builders(both[0])[0], builders(both[1])[0]);
    const ran = both
      .flatMap(imageSteps)
      .filter(({ name, cached }) => name.includes("/srv/two") && !cached);
    assert.equal(ran.length, 1, JSON.stringify(ran));
    const [one, two] = await Promise.all(both.map(({ id }) => own.output(id, "a")));
    assert.equal(one, two);
  });

  test("a step that another worker finished is not done again", async (t) => {
    const files = { "tasks/a.ts": { steps: unlike("three", 0), returns: reads("three"), head } };
    const path = project(t, files);
    const first = await own.deployedWell(path);
    const busy = own.workers.find(({ name }) => name === names.get(builders(first)[0] as string));
    await (busy as Worker).end("SIGTERM");
    const second = await own.deployedWell(path);
    busy?.start();
    await own.active();
    assert.notEqual(builders(second)[0], builders(first)[0]);
    assert.deepEqual(
      imageSteps(second).filter(({ cached }) => !cached),
      [],
    );
    assert.equal(await own.output(second.id, "a"), await own.output(first.id, "a"));
  });

  test("a cancelled build stops in the middle of a step", async (t) => {
    const path = project(t, { "tasks/a.ts": { steps: unlike("never", 600), head } });
    let cancelled: Promise<string> | undefined;
    const made = await own.watch(path, (event, id) => {
      if (begins(event, "/srv/never")) cancelled ??= own.printed(["deployment", "cancel", id]);
    });
    await cancelled;
    assert.equal(made.code, 1);
    assert.equal(made.record.error.failure_kind, "build_cancelled");
    const files = () => own.leftovers().filter((found) => found.startsWith("unfinished file:"));
    await until("the build's files are gone", () => files().length === 0);
  });

  test("a build whose worker is lost goes on at another", async (t) => {
    const files = { "tasks/a.ts": { steps: unlike("four", 3), returns: reads("four"), head } };
    let killed: Promise<unknown> | undefined;
    let victim: Worker | undefined;
    const made = await own.watch(project(t, files), (event) => {
      if (event.kind === "deployment.building" && !killed)
        victim = own.workers.find(({ name }) => name === names.get(event.attributes.worker_id));
      if (begins(event, "/srv/four")) killed ??= victim?.end("SIGKILL");
    });
    await killed;
    assert.equal(made.record.status, "deployed", JSON.stringify(made.record.error));
    assert.ok(made.events.some(({ kind }) => kind === "deployment.build.requeued"));
    assert.equal(new Set(builders(made)).size, 2);
    assert.match(await own.output(made.id, "a"), /^( [0-9a-f]{8}){4}\n$/);
    victim?.start();
    await own.active();
  });

  test("every store is whole, and nothing is left", () => own.stopClean());
});
