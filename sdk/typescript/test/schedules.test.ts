import assert from "node:assert/strict";
import { test } from "node:test";
import { image, PayloadSchemaValidationError, sandbox, schedules } from "@helmr/sdk";
import type { SchedulePayload } from "@helmr/sdk";
import { json, TestServer } from "./server.ts";

const sbx = sandbox("s").image(image("i").from("node:24"));
const minimal = { id: "t", sandbox: sbx, run: async () => 1 };
const made = (more: object): Record<string, any> => {
  const built = schedules.task({ ...minimal, ...more } as never) as object;
  return (built as Record<symbol, any>)[Symbol.for("helmr.sdk.Task")];
};

test("a schedule is part of its task", () => {
  const both = { pattern: "30 8 * * MON-FRI", timezone: "Europe/Berlin" };
  assert.deepEqual(made({ cron: "*/5 * * * *" }).schedules, [
    { cron: "*/5 * * * *", timezone: "UTC", secretBindings: undefined },
  ]);
  assert.deepEqual(made({ cron: both, secretBindings: { TOKEN: "vault:OTHER" } }).schedules, [
    {
      cron: "30 8 * * MON-FRI",
      timezone: "Europe/Berlin",
      secretBindings: { TOKEN: "vault:OTHER" },
    },
  ]);
  assert.deepEqual(made({}).schedules, []);
  assert.equal(made({}).acceptsPayload, true);
});

for (const cron of ["* * * * *", "0 0 29 2 *", "0,30 9-17/4 1 JAN sun-tue", " 5  4 * * FRI-SUN "])
  test(`cron may be "${cron}"`, () => assert.equal(made({ cron }).schedules[0].cron, cron));

const refusals: [string, object, RegExp][] = [
  ["four fields", { cron: "* * * *" }, /task t: cron must have five fields/],
  ["six fields", { cron: "* * * * * *" }, /cron must have five fields/],
  ["a name for all", { cron: "@daily" }, /cron must have five fields/],
  ["a minute of 60", { cron: "60 * * * *" }, /cron has no valid minute: "60"/],
  ["a day of 0", { cron: "0 0 0 * *" }, /cron has no valid day of month: "0"/],
  ["a range backwards", { cron: "0 9-5 * * *" }, /cron has no valid hour: "9-5"/],
  ["a step of one value", { cron: "5/10 * * * *" }, /cron has no valid minute/],
  ["a step of nothing", { cron: "*/0 * * * *" }, /cron has no valid minute/],
  ["a month that is a day", { cron: "0 0 * MON *" }, /cron has no valid month/],
  ["an empty item", { cron: "1,,2 * * * *" }, /cron has no valid minute/],
  ["no pattern", { cron: { timezone: "UTC" } }, /cron must be a string/],
  ["more than a pattern", { cron: { pattern: "* * * * *", zone: "UTC" } }, /cron\.zone is unknown/],
  [
    "a zone that is none",
    { cron: { pattern: "* * * * *", timezone: "Mars/Olympus" } },
    /cron\.timezone must be an IANA time zone/,
  ],
  [
    "an offset",
    { cron: { pattern: "* * * * *", timezone: "+01:00" } },
    /cron\.timezone must be an IANA/,
  ],
  [
    "another source of a secret",
    { cron: "* * * * *", secretBindings: { TOKEN: "env:HOME" } },
    /secretBindings\.TOKEN must be "vault:"/,
  ],
  ["bindings for nothing", { secretBindings: { A: "vault:B" } }, /secretBindings needs a cron/],
  ["a payload of its own", { payload: {} }, /schedules\.task\.payload is the schedule's own/],
  ["an unknown key", { every: "1h" }, /schedules\.task\.every is unknown/],
];
for (const [what, more, said] of refusals)
  test(`schedules.task refuses ${what}`, () => assert.throws(() => made(more), said));

const payload = {
  timestamp: "2026-11-16T03:00:00.000Z",
  timezone: "UTC",
  scheduleId: "0190a000-0000-7000-8000-000000000001",
  scheduleType: "declarative",
  upcoming: ["2026-11-17T03:00:00.000Z"],
};
const validate = (value: unknown): any => made({}).payload["~standard"].validate(value);

test("the task gets dates", () => {
  const got = validate({ ...payload, lastTimestamp: "2026-11-15T03:00:00.000Z", externalId: "e" });
  const value = got.value as SchedulePayload;
  assert.equal(value.timestamp.getTime(), Date.UTC(2026, 10, 16, 3));
  assert.equal(value.lastTimestamp?.getTime(), Date.UTC(2026, 10, 15, 3));
  assert.equal(value.upcoming[0]?.getTime(), Date.UTC(2026, 10, 17, 3));
  assert.equal(value.externalId, "e");
  assert.equal("lastTimestamp" in validate(payload).value, false);
  /* As one program hands it to another, before it is JSON. */
  assert.deepEqual(validate(value).value, value);
});

for (const value of [null, {}, [], "x", { ...payload, timestamp: "yesterday" }, { ...payload, upcoming: 1 }])
  test(`the task refuses ${JSON.stringify(value)}`, () => assert.ok(validate(value).issues.length > 0));

test("a start with another payload is refused before it is sent", async () => {
  const task = schedules.task(minimal);
  await assert.rejects(task.trigger({} as never), PayloadSchemaValidationError);
});

const record = {
  id: "0190a000-0000-7000-8000-000000000002",
  type: "imperative",
  deduplication_key: "nightly",
  task: "t",
  cron: "0 3 * * *",
  timezone: "UTC",
  status: "active",
  options: { queue: { name: "q" }, max_duration_seconds: 60 },
  next_fire_at: "2026-11-17T03:00:00.000Z",
  upcoming: ["2026-11-17T03:00:00.000Z"],
  created_at: "2026-11-16T03:00:00.000Z",
  updated_at: "2026-11-16T03:00:00.000Z",
};

test("a schedule is created and shown in the package's own words", async () => {
  await using server = await TestServer.start(json(201, record));
  const schedule = await server.client.schedules.create({
    deduplicationKey: "nightly",
    task: schedules.task(minimal),
    cron: "0 3 * * *",
    externalId: "e",
    secretBindings: { TOKEN: "vault:OTHER" },
    options: { queue: "q", maxDuration: "1m", ttl: 90, deploymentId: "20261116.1" },
  });
  assert.deepEqual(server.asked[0]?.body, {
    deduplication_key: "nightly",
    task: "t",
    cron: "0 3 * * *",
    external_id: "e",
    secret_bindings: { TOKEN: "vault:OTHER" },
    options: {
      deployment_id: "20261116.1",
      queue: { name: "q" },
      ttl: "90s",
      max_duration_seconds: 60,
    },
  });
  assert.equal(schedule.deduplicationKey, "nightly");
  assert.deepEqual(schedule.options, { queue: "q", maxDuration: 60 });
  assert.deepEqual(schedule.nextFireAt, new Date("2026-11-17T03:00:00.000Z"));
  assert.deepEqual(schedule.upcoming, [new Date("2026-11-17T03:00:00.000Z")]);
  assert.equal("lastFireAt" in schedule, false);
});

test("every call has its route", async () => {
  const page = { schedules: [record], next_cursor: "more" };
  await using server = await TestServer.start(
    json(200, page),
    json(200, record),
    json(200, record),
    json(200, record),
    json(200, record),
    (_request, response) => response.writeHead(204).end(),
  );
  const { schedules: client } = server.client;
  const first = await client.listPage({ limit: 1 });
  assert.equal(first.nextCursor, "more");
  const one = first.schedules[0] as { id: string };
  await client.retrieve(one);
  await client.update(one.id, { task: "t", cron: "0 4 * * *" });
  await client.activate(one);
  await client.deactivate(one, { projectId: "p", environmentId: "e" });
  await client.delete(one);
  assert.deepEqual(
    server.asked.map(({ method, url }) => `${method} ${url}`),
    [
      "GET /api/schedules?limit=1",
      `GET /api/schedules/${one.id}`,
      `PUT /api/schedules/${one.id}`,
      `POST /api/schedules/${one.id}/activate`,
      `POST /api/projects/p/environments/e/schedules/${one.id}/deactivate`,
      `DELETE /api/schedules/${one.id}`,
    ],
  );
});
