import assert from "node:assert/strict";
import { before, test } from "node:test";
import { patience } from "./lib/engine.ts";
import { api, client, deployed, helmr, printed, projects } from "./lib/helmr.ts";
import type { Request } from "./lib/helmr.ts";

const deployment = await deployed(`${projects}tasks`);
const unknown = "01900000-0000-7000-8000-000000000000";

const post = (body: unknown): Request => ({ method: "POST", body: JSON.stringify(body) });
const start = (more: object): Request =>
  post({ task_id: "naps", ...more, options: { deployment_id: deployment } });
const option = (options: object): Request =>
  post({ task_id: "naps", options: { deployment_id: deployment, ...options } });

/* What is sent, and the documented answer. */
const bad: [string, string, Request, number, string][] = [
  ["an unknown field", "/runs", start({ colour: "red" }), 400, "unknown_field"],
  ["an unknown option", "/runs", option({ colour: "red" }), 400, "unknown_field"],
  ["a field of the wrong type", "/runs", post({ task_id: 7 }), 400, "invalid_request"],
  ["a missing field", "/runs", post({}), 400, "invalid_request"],
  ["a body that is no JSON", "/runs", { method: "POST", body: "{" }, 400, "invalid_json"],
  [
    "two values in one body",
    "/runs",
    { method: "POST", body: '{"task_id":"naps"}{}' },
    400,
    "invalid_json",
  ],
  [
    "a key given twice",
    "/runs",
    { method: "POST", body: '{"task_id":"naps","task_id":"naps"}' },
    400,
    "invalid_json",
  ],
  [
    "bytes that are no UTF-8",
    "/runs",
    { method: "POST", body: Buffer.from([34, 255, 34]) },
    400,
    "invalid_json",
  ],
  ["a priority that is no number", "/runs", option({ priority: "high" }), 400, "invalid_request"],
  ["a duration that is none", "/runs", option({ ttl: "soon" }), 400, "invalid_request"],
  [
    "a body that is too large",
    "/runs",
    start({ payload: "x".repeat(33 << 20) }),
    413,
    "request_too_large",
  ],
  [
    "a task that is not there",
    "/runs",
    post({ task_id: "nobody", options: { deployment_id: deployment } }),
    404,
    "task_not_found",
  ],
  [
    "a stored secret by another way",
    "/runs",
    start({ secrets: { A: "env:A" } }),
    400,
    "secret_source_unsupported",
  ],
  ["a bad cursor", "/runs?cursor=zzz", {}, 400, "invalid_cursor"],
  ["a limit that is too large", "/runs?limit=100000", {}, 400, "invalid_request"],
  ["a status that is none", "/runs?status=sleeping", {}, 400, "invalid_request"],
  ["a run that is not there", `/runs/${unknown}`, {}, 404, "not_found"],
  ["a bad event cursor", `/deployments/${deployment}/events?cursor=zzz`, {}, 400, "invalid_cursor"],
  ["a route that is not there", "/nothing", {}, 404, "not_found"],
  ["a method that is not there", "/runs", { method: "DELETE" }, 405, "method_not_allowed"],
  [
    "another API version",
    "/runs",
    { headers: { "Helmr-API-Version": "1999-01-01" } },
    400,
    "unsupported_api_version",
  ],
  ["no key", "/runs", { key: "" }, 401, "authentication_required"],
  ["a key that is none", "/runs", { key: "hlmr_nonsense" }, 401, "authentication_required"],
  ["a key for a person's route", "/projects", {}, 403, "permission_required"],
  ["a worker's route", "/worker/poll", post({}), 401, "authentication_required"],
  [
    "another environment",
    `/projects/${unknown}/environments/${unknown}/runs`,
    {},
    404,
    "not_found",
  ],
];

const state = async () => {
  const counts = await api("/runs/counts");
  const deployments = await api("/deployments");
  return { counts: counts.body, deployments: deployments.body };
};

let untouched: unknown;
before(async () => {
  untouched = await state();
});

for (const [what, path, request, status, code] of bad)
  test(`${what} is refused with ${status} ${code}`, async () => {
    const answer = await api(path, request);
    const got = [answer.status, answer.body?.code];
    assert.deepEqual(got, [status, code], JSON.stringify(answer.body));
    assert.equal(typeof answer.body.error, "string");
    assert.ok(answer.headers.get("x-request-id"));
  });

test("nothing that was refused has changed anything", async () => {
  assert.deepEqual(await state(), untouched);
});

test("a key may do what it was made for and nothing else", async () => {
  const reader = (await printed(["key", "create", "reader", "--permission", "runs:read"])).trim();
  assert.equal((await api("/runs", { key: reader })).status, 200);
  const refused = await api("/runs", { ...start({}), key: reader });
  assert.deepEqual([refused.status, refused.body.code], [403, "permission_required"]);
});

test("a revoked key is refused at once", async () => {
  const key = (await printed(["key", "create", "brief", "--permission", "runs:read"])).trim();
  assert.equal((await api("/runs", { key })).status, 200);
  const keys = JSON.parse(await printed(["key", "list", "--json"]));
  const { id } = keys.api_keys.find(({ name }: { name: string }) => name === "brief");
  assert.equal((await helmr(["key", "revoke", id])).code, 1);
  assert.equal(await printed(["key", "revoke", id, "--yes"]), `${id} revoked\n`);
  const refused = await api("/runs", { key });
  assert.deepEqual([refused.status, refused.body.code], [401, "authentication_required"]);
});

test("a start sent twice with one idempotency key is one run", async () => {
  const options = { deploymentId: deployment, idempotencyKey: `once-${process.pid}` };
  const first = await client.tasks.trigger("naps", { ms: 1 }, options);
  const second = await client.tasks.trigger("naps", { ms: 1 }, options);
  assert.equal(second.id, first.id);
  await assert.rejects(client.tasks.trigger("naps", { ms: 2 }, options), {
    code: "idempotency_fingerprint_mismatch",
  });
  await client.runs.wait(first, { timeoutMs: patience(60_000) });
});
