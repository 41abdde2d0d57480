// A project and an environment of one's own, deployed to and run in, apart from all others.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AuthError, HelmrClient } from "@helmr/sdk";
import { engine, patience } from "./lib/engine.ts";
import { api, apiKey, examples, helmr, printed, url } from "./lib/helmr.ts";

const scope = ["-p", "shop", "-e", "preview"];
const path = "/projects/shop/environments/preview";
const hello = `${examples}hello-world`;

let key = "";

const cells = async (args: string[]): Promise<string[]> =>
  (await printed(args)).trimEnd().split("\t");

test("a project begins with two environments and gets a third", async () => {
  const [project = "", slug, name] = await cells(["project", "create", "Shop"]);
  assert.deepEqual([slug, name], ["shop", "Shop"]);
  await printed(["env", "create", "Preview", "-p", project, ...engine.lacks.flags]);
  const list = await printed(["env", "list", "-p", "shop"]);
  assert.deepEqual(
    list.trim().split("\n").map((line) => line.split("\t")[1]),
    ["production", "staging", "preview"],
  );
  key = (await printed(["key", "create", "shop", "--permission", "all", ...scope])).trim();
});

test("a key acts in its one environment, by id and by slug, and in no other", async () => {
  const me = await api("/me", { key });
  assert.equal(me.body.environment.slug, "preview");
  for (const prefix of ["", path, `/projects/${me.body.project.id}/environments/preview`])
    assert.equal((await api(`${prefix}/runs`, { key })).status, 200, prefix);
  for (const prefix of ["/projects/shop/environments/staging", "/projects/main/environments/production"])
    assert.equal((await api(`${prefix}/runs`, { key })).status, 404, prefix);
  assert.equal((await api(`${path}/runs`, { key: apiKey })).status, 404);
});

test("what asks for more than any worker has is not started, nor built", async () => {
  const queued = await helmr(["deploy", hello, "--detach", ...scope]);
  assert.equal(queued.code, 0, queued.stderr);
  const [line = ""] = (await printed(["deployment", "list", ...scope])).split("\n");
  const [deployment = "", , status] = line.split("\t");
  assert.equal(status, "queued");
  assert.equal((await api(`/deployments/${deployment}`, { key })).status, 200);
  assert.equal((await api(`/deployments/${deployment}`)).status, 404);
  assert.equal((await api(`/deployments/${deployment}/cancel`, { method: "POST" })).status, 404);

  const refused = await helmr(["env", "delete", "preview", "-p", "shop", "--yes"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /pending builds: 1, .*\(project_not_empty\)/);

  await printed(["env", "update", "preview", "-p", "shop", ...engine.lacks.remedy]);
  const deployed = await helmr(["deploy", hello, ...scope]);
  assert.equal(deployed.code, 0, deployed.stderr);
});

test("a run belongs to its environment", async () => {
  const client = new HelmrClient({ url, apiKey: key });
  const { id } = await client.tasks.trigger("hello-world", { name: "Ada" });
  const ended = await client.runs.wait(id, { timeoutMs: patience(120_000) });
  assert.equal(ended.status, "succeeded", JSON.stringify(ended.error));
  for (const rest of ["", "/events", "/logs"]) {
    assert.equal((await api(`/runs/${id}${rest}`, { key })).status, 200);
    assert.equal((await api(`/runs/${id}${rest}`)).status, 404);
  }
});

test("a revoked key ends at once", async () => {
  const client = new HelmrClient({ url, apiKey: key });
  await client.runs.list();
  const [line = ""] = (await printed(["key", "list", ...scope])).split("\n");
  await printed(["key", "revoke", line.split("\t")[0] ?? "", "--yes", ...scope]);
  await assert.rejects(client.runs.list(), AuthError);
});

test("a project with a workspace is not deleted, an empty one is", async () => {
  const refused = await helmr(["project", "delete", "shop", "--yes"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /workspaces: 1 \(project_not_empty\)/);
  await printed(["project", "create", "Empty"]);
  assert.equal(await printed(["project", "delete", "empty", "--yes"]), "empty deleted\n");
  assert.equal((await helmr(["project", "delete", "main", "--yes"])).code, 1);
});
