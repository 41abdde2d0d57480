// Runs that start by the clock: declared in source, made by command, and after a downtime.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import type { RunSnapshot } from "@helmr/sdk";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { project } from "./lib/project.ts";
import { declaredScope } from "./lib/scope.ts";

const minuteMs = 60_000;
const downtimeMs = 150_000;

const source = `import { image, sandbox, schedules, task } from "@helmr/sdk";
const box = sandbox("s").image(image("i").from("node:24-bookworm-slim"));
export const tick = schedules.task({
  id: "tick",
  sandbox: box,
  cron: { pattern: "* * * * *", timezone: "Europe/Berlin" },
  run: async (payload, ctx) => ({
    at: payload.timestamp.getTime(),
    areDates: [payload.timestamp, ...payload.upcoming].every((date) => date instanceof Date),
    upcoming: payload.upcoming.length,
    type: payload.scheduleType,
    zone: payload.timezone,
    task: ctx.task.id,
  }),
});
export const plain = task({ id: "plain", sandbox: box, run: async () => "no payload" });
`;

const timeOf = (run: RunSnapshot): number =>
  Date.parse((run.payload as { timestamp: string }).timestamp);

suite("schedules", () => {
  const scope = declaredScope();
  const folder = mkdtempSync(`${tmpdir()}/helmr-schedules-`);
  /* Of the clock that server and worker have. */
  const offset = `${folder}/offset`;
  let own: Own;

  /** Oldest first. */
  async function ticks(): Promise<RunSnapshot[]> {
    return (await own.client.runs.list({ status: "all", taskId: "tick" })).reverse();
  }

  before(async () => {
    scope.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(offset, "+0");
    own = await startOwn(scope, {
      env: {
        HELMR_SCHEDULE_JITTER: "0s",
        LD_PRELOAD: "/usr/$LIB/faketime/libfaketimeMT.so.1",
        FAKETIME_TIMESTAMP_FILE: offset,
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
      },
    });
    await own.printed(["deploy", project(scope, { "tasks/a.ts": source })]);
  });

  test("a declared schedule starts one run at a real minute, and its task gets dates", async () => {
    const [schedule] = await own.client.schedules.list();
    assert.ok(schedule?.nextFireAt);
    const { nextFireAt } = schedule;
    assert.equal(schedule.type, "declarative");
    assert.ok(nextFireAt.getTime() - Date.now() <= minuteMs);
    await until("the next minute", async () => (await ticks()).length > 0);
    const [first] = await ticks();
    assert.equal(timeOf(first as RunSnapshot), nextFireAt.getTime());
    const ended = await own.client.runs.wait(first as RunSnapshot, { timeoutMs: 120_000 });
    assert.deepEqual(ended.output, {
      at: nextFireAt.getTime(),
      areDates: true,
      upcoming: 5,
      type: "declarative",
      zone: "Europe/Berlin",
      task: "tick",
    });
    const [created] = await own.runEvents(ended.id);
    assert.equal(created?.kind, "run.created");
    assert.equal(created?.attributes.reason, "schedule");
    assert.equal(created?.attributes.cause.schedule_id, schedule.id);
    const times = (await ticks()).map(timeOf);
    assert.equal(new Set(times).size, times.length);
  });

  test("what the source declares is not edited", async () => {
    const line = (await own.printed(["schedule", "list"])).trim();
    const [id = "", task, cron, zone, status] = line.split("\t");
    assert.deepEqual([task, cron, zone, status], ["tick", "* * * * *", "Europe/Berlin", "active"]);
    const { code, stderr } = await own.helmr(["schedule", "deactivate", id]);
    assert.equal(code, 1);
    assert.match(stderr, /\(schedule_declarative\)/);
  });

  test("one made by command is shown, switched and deleted", async () => {
    const flags = ["--key", "nightly", "--task", "plain", "--cron", "0 3 * * *", "--inactive"];
    const id = (await own.printed(["schedule", "create", ...flags])).trim();
    assert.equal((await own.printed(["schedule", "create", ...flags])).trim(), id);
    assert.match(await own.printed(["schedule", "get", id]), /^Status: inactive$/m);
    assert.equal(await own.printed(["schedule", "activate", id]), `${id} active\n`);
    assert.match(await own.printed(["schedule", "get", id]), /^Next: .*T03:00:00\.000Z$/m);
    assert.equal(await own.printed(["schedule", "deactivate", id]), `${id} inactive\n`);
    assert.equal(await own.printed(["schedule", "delete", id, "--yes"]), `${id} deleted\n`);
    assert.equal((await own.helmr(["schedule", "get", id])).code, 1);
  });

  test("a server that was down over two slots starts one late run, then goes on", async () => {
    for (const worker of own.workers) await worker.end("SIGTERM");
    const known = (await ticks()).length;
    await own.server.end("SIGKILL");
    writeFileSync(offset, `+${downtimeMs / 1000}s`);
    own.server.start();
    await ready(own.place.url);
    own.workers.forEach((worker) => worker.start());
    await own.active();
    await until("the late run", async () => (await ticks()).length > known);
    const all = await ticks();
    const late = all[known] as RunSnapshot;
    const before = all[known - 1] as RunSnapshot;
    assert.ok(timeOf(late) - timeOf(before) >= 2 * minuteMs, "slots in between were left out");
    assert.equal(Date.parse((late.payload as any).lastTimestamp), timeOf(before));
    const ended = await own.client.runs.wait(late, { timeoutMs: 120_000 });
    assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
    const [schedule] = await own.client.schedules.list();
    assert.ok((schedule?.nextFireAt?.getTime() ?? 0) > timeOf(late));
    const times = (await ticks()).map(timeOf);
    assert.equal(new Set(times).size, times.length, "never two runs for one slot");
  });

  test("nothing is left", () => own.stopClean());
});
