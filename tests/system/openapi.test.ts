// Every operation that the API describes, asked of a real server and judged by its description.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { before, suite, test } from "node:test";
import { binary, projects } from "./lib/helmr.ts";
import { Contract } from "./lib/openapi.ts";
import type { Document } from "./lib/openapi.ts";
import { freePort, ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { Part } from "./lib/part.ts";
import { declaredScope } from "./lib/scope.ts";
import { Walker } from "./lib/walk.ts";
import { parked, succeeded } from "./lib/waiting.ts";

const password = "correct horse battery";

/** A server without its first owner, and the token that makes one. */
async function emptyServer(t: { after(end: () => unknown): void }): Promise<[string, string]> {
  const dataDir = mkdtempSync(`${tmpdir()}/helmr-openapi-`);
  const url = `http://127.0.0.1:${await freePort()}`;
  const env = {
    ...process.env,
    HELMR_DEV_LOGIN: "off",
    HELMR_MASTER_KEY: randomBytes(32).toString("base64"),
    HELMR_WORKER_BOOTSTRAP_TOKEN: randomBytes(32).toString("base64url"),
  };
  const log = `${dataDir}/server.log`;
  const args = ["server", "--data-dir", `${dataDir}/data`, "--addr", new URL(url).host];
  const server = new Part(binary, args, env, log);
  t.after(async () => {
    await server.end("SIGTERM");
    rmSync(dataDir, { recursive: true });
  });
  server.start();
  await ready(url);
  const token = /\/setup\?token=(\S+)/.exec(readFileSync(log, "utf8"))?.[1];
  assert.ok(token, readFileSync(log, "utf8"));
  return [url, token];
}

suite("the API is as it describes itself", () => {
  const scope = declaredScope();
  let own: Own;
  let contract: Contract;
  let api: Walker;

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    const document = await (await fetch(`${own.place.url}/api/openapi.json`)).json();
    contract = new Contract(document as Document);
    const named = "/api/projects/main/environments/production";
    api = new Walker(contract, own.place.url, own.session, named);
  });

  test("every body has an example, and every example is right", () => {
    const without: string[] = [];
    for (const { place, schema } of contract.described) {
      if (!schema.examples?.length) without.push(place);
      for (const example of schema.examples ?? []) contract.judge(place, schema, example);
    }
    assert.deepEqual(without, []);
  });

  test("health", async () => {
    await api.ask("GET /healthz");
    await api.ask("GET /readyz");
    await api.ask("GET /api/openapi.json");
    await api.ask("POST /api/auth/dev/login", { token: "" });
    await api.ask("GET /api/me");
    const key = await api.ask("GET /api/me", { token: own.place.apiKey });
    assert.equal(key.auth, "api_key");
  });

  test("people", async (t) => {
    const [url, setup_token] = await emptyServer(t);
    const nobody = new Walker(contract, url, "");
    const email = "ada@example.test";
    const first = { setup_token, email, password, display_name: "Ada" };
    const setup = "POST /api/auth/setup";
    await nobody.ask(setup, { status: 401, body: { ...first, setup_token: "x" } });
    await nobody.ask(setup, {
      status: 201,
      body: { ...first, organization: { slug: "acme", name: "Acme" } },
    });
    await nobody.ask(setup, { status: 409, body: first });
    await nobody.ask("POST /api/auth/login", { status: 401, body: { email, password: "no" } });
    await nobody.ask("POST /api/auth/login", { body: { email, password, next: "/runs" } });
    await nobody.ask("POST /api/auth/dev/login", { status: 404 });
    await nobody.ask("GET /api/auth/oidc/start", { status: 404 });
    const query = { code: "c", state: "s" };
    await nobody.ask("GET /api/auth/oidc/callback", { status: 404, query });

    const login = async (who: string, secret: string): Promise<Walker> => {
      const body = JSON.stringify({ email: who, password: secret });
      const answer = await fetch(`${url}/api/auth/login`, { method: "POST", body });
      const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
      return new Walker(contract, url, cookie.slice(cookie.indexOf("=") + 1));
    };
    const ada = await login(email, password);
    const invite = (who: string): Promise<any> =>
      ada.ask("POST /api/invitations", {
        status: 201,
        body: { email: who, role: "developer", expires_in_days: 3 },
      });
    const invitation = await invite("bob@example.test");
    const spare = await invite("eve@example.test");
    await ada.ask("GET /api/invitations");
    const drop = "DELETE /api/invitations/{invitation}";
    await ada.ask(drop, { status: 204, params: { invitation: spare.id } });
    const accept = "POST /api/auth/invitations/accept";
    const tokenOf = (address: string): string =>
      new URL(address).searchParams.get("token") ?? new URL(address).hash.slice(1);
    const joining = { token: tokenOf(invitation.invite_url), display_name: "Bob", password };
    await nobody.ask(accept, { body: joining });
    await nobody.ask(accept, { status: 409, body: joining });
    await ada.ask(drop, { status: 409, params: { invitation: invitation.id } });

    const { members } = await ada.ask("GET /api/members");
    const user = members.find((one: any) => one.email === "bob@example.test").user_id;
    const change = { role: "viewer", expected_role: "developer" };
    await ada.ask("PATCH /api/members/{user}", { params: { user }, body: change });
    await ada.ask("PATCH /api/members/{user}", { status: 409, params: { user }, body: change });
    const reset = await ada.ask("POST /api/members/{user}/password-reset", {
      status: 201,
      params: { user },
    });
    const fresh = { token: tokenOf(reset.reset_url), new_password: `${password}!` };
    await nobody.ask("POST /api/auth/password/reset", { body: fresh });
    const bob = await login("bob@example.test", `${password}!`);
    await bob.ask("POST /api/auth/password", {
      status: 204,
      body: { current_password: `${password}!`, new_password: `${password}?` },
    });
    await ada.ask("DELETE /api/members/{user}", { status: 204, params: { user } });

    const device = await nobody.ask("POST /api/auth/device/start", { status: 201 });
    const { device_code, user_code } = device;
    const poll = "POST /api/auth/device/token";
    await nobody.ask(poll, { status: 202, body: { device_code } });
    await ada.ask("GET /api/auth/device/status", { query: { user_code } });
    await ada.ask("POST /api/auth/device/approve", { body: { user_code } });
    await nobody.ask(poll, { status: 400, body: { device_code: "A".repeat(43) } });
    const other = await nobody.ask("POST /api/auth/device/start", { status: 201 });
    await ada.ask("POST /api/auth/device/deny", { body: { user_code: other.user_code } });
    await new Promise((resolve) => setTimeout(resolve, 5_100));
    await nobody.ask(poll, { body: { device_code } });
    await ada.ask("POST /api/auth/logout", { status: 204 });
  });

  test("projects, environments and keys", async () => {
    const second = await api.ask("POST /api/projects", { status: 201, body: { name: "Second" } });
    const project = second.slug;
    await api.ask("GET /api/projects");
    await api.ask("GET /api/projects/{project}", { params: { project } });
    await api.ask("PATCH /api/projects/{project}", { params: { project }, body: { name: "Two" } });
    const all = "/api/projects/{project}/environments";
    const body = { name: "Test", color_hex: "#123456", min_grade: "user-kernel" };
    const made = await api.ask(`POST ${all}`, { status: 201, params: { project }, body });
    const params = { project, environment: made.slug };
    await api.ask(`GET ${all}`, { params });
    await api.ask(`GET ${all}/{environment}`, { params });
    const change = { name: "Trial", limits: { workspaces: 5 } };
    await api.ask(`PATCH ${all}/{environment}`, { params, body: change });
    await api.ask(`DELETE ${all}/{environment}`, { status: 204, params });
    await api.ask("DELETE /api/projects/{project}", { status: 204, params });

    const permissions = [{ scopes: ["runs:read"] }];
    const key = await api.ask("POST /api/api-keys", {
      status: 201,
      body: { name: "one", expires_in_days: 30, permissions },
    });
    await api.ask("GET /api/api-keys", { query: { filter: "all" } });
    await api.ask("DELETE /api/api-keys/{key}", { status: 204, params: { key: key.id } });
  });

  test("secrets", async () => {
    const params = { name: "STORED" };
    await api.ask("PUT /api/secrets/{name}", { status: 201, params, body: { value: "first" } });
    await api.ask("PUT /api/secrets/{name}", { params, body: { value: "second" } });
    await api.ask("GET /api/secrets");
    await api.ask("GET /api/secrets/{name}", { params });
    await api.ask("DELETE /api/secrets/{name}", { status: 204, params });
  });

  test("deployments, tasks and sandboxes", async () => {
    await api.ask("GET /api/deployments/current");
    const id = await own.deployed(`${projects}waits`);
    const params = { deployment: id };
    await api.ask("GET /api/deployments");
    const one = await api.ask("GET /api/deployments/{deployment}", { params });
    await api.ask("GET /api/deployments/{deployment}", { params: { deployment: one.version } });
    const events = "GET /api/deployments/{deployment}/events";
    await api.ask(events, { params, query: { limit: "3" } });
    await api.ask(events, { params, headers: { accept: "text/event-stream" } });
    const promote = "POST /api/deployments/{deployment}/promote";
    await api.ask(promote, { params, body: { reason: "walk" } });
    await api.ask("GET /api/deployments/current");
    await api.ask("POST /api/deployments/{deployment}/cancel", { status: 409, params });
    await api.ask("GET /api/tasks");
    await api.ask("GET /api/tasks/{task}", { params: { task: "branch" } });
    const { sandboxes } = await api.ask("GET /api/sandboxes");
    await api.ask("GET /api/sandboxes/{sandbox}", { params: { sandbox: sandboxes[0].id } });

    const tar = new Uint8Array(1024);
    const digest = createHash("sha256").update(tar).digest("hex");
    const form = new FormData();
    const metadata = JSON.stringify({ content_hash: `sha256:${digest}`, no_cache: true });
    form.append("metadata", new Blob([metadata], { type: "application/json" }));
    form.append("deployment_source", new Blob([tar]));
    const queued = await api.ask("POST /api/deployments", { status: 201, raw: form });
    await api.ask(promote, { status: 409, params: { deployment: queued.id }, body: {} });
  });

  test("runs", async () => {
    const body = {
      task_id: "branch",
      payload: {},
      options: { ttl: "1h", priority: 5, metadata: { a: 1 }, tags: ["a"], idempotency_key: "walk" },
    };
    const { id: run } = await api.ask("POST /api/runs", { status: 201, body });
    await api.ask("POST /api/runs", { body });
    await api.ask("POST /api/runs", { status: 409, body: { ...body, payload: { b: 2 } } });
    const params = { run };
    await parked(own, run);
    await api.ask("GET /api/runs", { query: { status: "all", task_id: "branch" } });
    await api.ask("GET /api/runs/counts");
    await api.ask("GET /api/live");
    await api.ask("GET /api/runs/{run}", { params });
    await api.ask("GET /api/runs/{run}/waits", { params });
    const fork = { data: { approved: true }, idempotency_key: "fork" };
    const forked = await api.ask("POST /api/runs/{run}/fork", { status: 201, params, body: fork });
    const { id: wait } = (await api.ask("GET /api/runs/{run}/waits", { params })).waits[0];
    await api.ask("POST /api/tokens/{token}/complete", {
      params: { token: wait },
      body: { data: { approved: false } },
    });
    await succeeded(own, run);
    await succeeded(own, forked.run.id);
    await api.ask("GET /api/runs/{run}", { params });
    const stream = { accept: "text/event-stream" };
    for (const part of ["logs", "events"]) {
      await api.ask(`GET /api/runs/{run}/${part}`, { params });
      await api.ask(`GET /api/runs/{run}/${part}`, { params, headers: stream });
    }
    await api.ask("GET /api/runs/{run}/diff", { params, query: { patch: "1" } });
    const { workspace_id: workspace, result_version_id: to } = forked.run;
    const versions = { workspace, ...(to && { to }) };
    await api.ask("GET /api/workspaces/{workspace}/diff", { params: versions });
    const other = await own.client.tasks.trigger("branch", {});
    await api.ask("POST /api/runs/{run}/cancel", {
      params: { run: other.id },
      body: { reason: "walk", force: true, idempotency_key: "cancel" },
    });
  });

  type Texts = Record<string, string>;
  type Form = readonly [string, { params?: Texts; query?: Texts }];

  /** The streams of a session by both its names, with an account and with public access tokens. */
  async function walkStreams(session_id: string, forms: readonly Form[]): Promise<void> {
    const access = async (type: string): Promise<Walker> => {
      const body = { scope: { type, session_id } };
      const made = await api.ask("POST /api/public-access-tokens", { status: 201, body });
      return new Walker(contract, own.place.url, made.public_access_token);
    };
    const sender = await access("session.input.send");
    const reader = await access("session.output.read");
    const body = { data: { text: "hello" }, correlation_id: "c" };
    for (const [form, { params, query }] of forms) {
      const input = { params: { ...params, stream: "notes" }, ...(query && { query }) };
      const output = { params: { ...params, stream: "report" }, ...(query && { query }) };
      const keyed = { ...body, idempotency_key: `walk ${form}` };
      await api.ask(`GET /api/sessions/${form}/streams`, { ...input });
      const send = `POST /api/sessions/${form}/inputs/{stream}`;
      await api.ask(send, { ...input, status: 201, body: keyed });
      await api.ask(send, { ...input, body: keyed });
      await api.ask(`GET /api/sessions/${form}/inputs/{stream}`, input);
      await api.ask(`GET /api/sessions/${form}/outputs/{stream}/read`, output);
      const append = `POST /api/sessions/${form}/outputs/{stream}`;
      await api.ask(append, { ...output, status: 201, body });
      await api.ask(`GET /api/sessions/${form}/outputs/{stream}`, output);
      const outside = `POST /api/v1/sessions/${form}/inputs/{stream}`;
      await sender.ask(outside, { ...input, status: 201, body });
      await reader.ask(`GET /api/v1/sessions/${form}/outputs/{stream}`, output);
      await reader.ask(`GET /api/v1/sessions/${form}/outputs/{stream}/read`, output);
    }
  }

  test("sessions, by id and by the caller's name", async () => {
    const body = { task_id: "branch", payload: {}, metadata: { a: 1 }, tags: ["walk"] };
    const named = { ...body, external_id: "walk" };
    const { session, run } = await api.ask("POST /api/sessions", { status: 201, body: named });
    await api.ask("POST /api/sessions", { body: named });
    await api.ask("POST /api/sessions", { status: 409, body: { ...named, payload: { b: 2 } } });
    const awaited = { ...body, external_id: "walk too", timeout_seconds: 1 };
    const other = await api.ask("POST /api/sessions/start-and-wait", { body: awaited });
    await api.ask("GET /api/sessions", { query: { status: "all" } });
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const forms = [
      ["{session}", { params: { session: session.id } }],
      ["by-external-id", { query: { external_id: "walk" } }],
    ] as const;
    for (const [form, of] of forms) {
      await api.ask(`GET /api/sessions/${form}`, of);
      await api.ask(`GET /api/sessions/${form}/runs`, of);
      await api.ask(`PATCH /api/sessions/${form}`, { ...of, body: { tags: ["walked"], expires_at } });
      await api.ask(`POST /api/sessions/${form}/close`, { ...of, status: 409, body: {} });
    }
    await walkStreams(session.id, forms);
    await own.client.runs.cancel(run.id, { force: true });
    await own.client.runs.wait(run.id, { timeoutMs: 240_000 });
    await api.ask("POST /api/sessions/by-external-id/close", {
      query: { external_id: "walk" },
      body: { reason: "done" },
    });
    const params = { session: other.session.id };
    await api.ask("POST /api/sessions/{session}/cancel", { params, body: { reason: "enough" } });
    const last = { ...body, external_id: "walk three" };
    const third = await own.client.sessions.start("branch", {}, { externalId: last.external_id });
    const query = { external_id: last.external_id };
    await api.ask("POST /api/sessions/by-external-id/cancel", { query, body: {} });
    await own.client.runs.wait(third.run, { timeoutMs: 240_000 });
    const over = await own.client.sessions.start("branch", {});
    await own.client.runs.cancel(over.run, { force: true });
    await own.client.runs.wait(over.run, { timeoutMs: 240_000 });
    await api.ask("POST /api/sessions/{session}/close", {
      params: { session: over.session.id },
      body: { reason: "done" },
    });
  });

  test("workspaces and their files", async () => {
    const { sandboxes } = await api.ask("GET /api/sandboxes");
    const body = { sandbox_id: sandboxes[0].sandbox_id, external_id: "walk", tags: ["walk"] };
    const { workspace: made } = await api.ask("POST /api/workspaces", { status: 201, body });
    await api.ask("POST /api/workspaces", { body });
    await api.ask("POST /api/workspaces", { status: 409, body: { ...body, metadata: { a: 1 } } });
    await api.ask("GET /api/workspaces", { query: { tag: "walk", state: "active" } });
    const one = "/api/workspaces/{workspace}";
    const params = { workspace: made.id };
    await api.ask(`GET ${one}`, { params });
    await api.ask(`PATCH ${one}`, { params, body: { metadata: { a: 1 }, tags: ["walked"] } });

    const at = (path: string): { params: typeof params; query: { path: string } } => ({
      params,
      query: { path },
    });
    const first = await api.ask(`PUT ${one}/files/content`, { ...at("dir/a.txt"), raw: "content" });
    await api.ask(`GET ${one}/files`, at("dir"));
    await api.ask(`GET ${one}/files/stat`, at("dir/a.txt"));
    await api.ask(`GET ${one}/files/content`, at("dir/a.txt"));
    await api.ask(`POST ${one}/files/directory`, { params, body: { path: "new" } });
    await api.ask(`POST ${one}/files/move`, { params, body: { from: "dir/a.txt", to: "new/b.txt" } });
    await api.ask(`GET ${one}/files/archive`, at("new"));
    await api.ask(`PUT ${one}/files/archive`, { ...at("new"), raw: new Uint8Array(1024) });
    await api.ask(`DELETE ${one}/files`, at("new/b.txt"));
    await api.ask(`GET ${one}/versions`, { params, query: { kind: "user", limit: "2" } });
    const version = { ...params, version: first.version_id };
    await api.ask(`GET ${one}/versions/{version}`, { params: version });
    await api.ask(`POST ${one}/versions/{version}/restore`, { params: version });
    await api.ask(`DELETE ${one}`, { status: 202, params });
  });

  test("commands and terminals in a workspace", async () => {
    const { sandboxes } = await api.ask("GET /api/sandboxes");
    const body = { sandbox_id: sandboxes[0].sandbox_id };
    const { workspace: made } = await api.ask("POST /api/workspaces", { status: 201, body });
    const one = "/api/workspaces/{workspace}";
    const params = { workspace: made.id };
    const stream = { accept: "text/event-stream" };
    await api.ask(`POST ${one}/materialize`, { status: 202, params });

    const cat = { command: ["cat"], env: { A: "b" }, idempotency_key: "walk" };
    const { exec } = await api.ask(`POST ${one}/execs`, { status: 201, params, body: cat });
    await api.ask(`POST ${one}/execs`, { params, body: cat });
    const of = { ...params, exec: exec.id };
    const input = { offset: 0, data: Buffer.from("hello\n").toString("base64") };
    await api.ask(`POST ${one}/execs/{exec}/stdin`, { params: of, body: input });
    await api.ask(`POST ${one}/execs/{exec}/stdin`, { status: 409, params: of, body: input });
    await api.ask(`POST ${one}/execs/{exec}/stdin/close`, { status: 204, params: of });
    await own.client.workspaces.open(made.id).execs.open(exec.id).wait();
    await api.ask(`GET ${one}/execs`, { params });
    await api.ask(`GET ${one}/execs/{exec}`, { params: of });
    for (const name of ["stdout", "stderr"]) {
      await api.ask(`GET ${one}/execs/{exec}/${name}`, { params: of });
      await api.ask(`GET ${one}/execs/{exec}/${name}`, { params: of, headers: stream });
    }
    const sleep = { command: ["sleep", "600"], detached: true };
    const long = await api.ask(`POST ${one}/execs`, { status: 201, params, body: sleep });
    const kill = { params: { ...params, exec: long.exec.id }, body: { signal: "KILL" } };
    await api.ask(`POST ${one}/execs/{exec}/terminate`, kill);

    const size = { cols: 100, rows: 30 };
    const { pty } = await api.ask(`POST ${one}/pty`, { status: 201, params, body: size });
    const term = { ...params, pty: pty.id };
    await until("an open terminal", async () =>
      (await api.ask(`GET ${one}/pty/{pty}`, { params: term })).state === "open");
    await api.ask(`GET ${one}/pty`, { params });
    const keys = { offset: 0, data: Buffer.from("exit\n").toString("base64") };
    await api.ask(`POST ${one}/pty/{pty}/resize`, { params: term, body: { cols: 90, rows: 20 } });
    await api.ask(`POST ${one}/pty/{pty}/input`, { params: term, body: keys });
    await api.ask(`GET ${one}/pty/{pty}/output`, { params: term, headers: stream });
    await api.ask(`GET ${one}/pty/{pty}/output`, { params: term });
    await api.ask(`POST ${one}/pty/{pty}/close`, { params: term });
    const port = { ...params, port: "3000" };
    await api.ask(`POST ${one}/ports/{port}/preview`, { status: 404, params: port });
    await api.ask(`POST ${one}/stop`, { status: 202, params });
    await api.ask(`DELETE ${one}`, { status: 202, params });
    await until("a deleted workspace", async () =>
      (await api.ask(`GET ${one}`, { params })).state === "deleted");
  });

  test("tokens, inside and outside", async () => {
    const body = { timeout: "1h", metadata: { prompt: "?" }, idempotency_key: "token" };
    const made = await api.ask("POST /api/tokens", { status: 201, body });
    await api.ask("GET /api/tokens", { query: { status: "pending" } });
    await api.ask("GET /api/tokens/{token}", { params: { token: made.id } });
    const outside = new Walker(contract, own.place.url, made.public_access_token);
    await outside.ask("GET /api/v1/tokens/{token}", { params: { token: made.id } });
    const grant = { scope: { type: "token.complete", token_id: made.id }, max_uses: 1 };
    const access = await api.ask("POST /api/public-access-tokens", { status: 201, body: grant });
    const drop = "DELETE /api/public-access-tokens/{public_token}";
    await api.ask(drop, { status: 204, params: { public_token: access.id } });
    const complete = "POST /api/v1/tokens/{token}/complete";
    await outside.ask(complete, { params: { token: made.id }, body: { data: [1] } });

    const called = await own.client.tokens.create();
    const secret = called.callbackUrl.split("/").at(-1) as string;
    await outside.ask("POST /api/v1/tokens/{token}/callback/{secret}", {
      token: "",
      params: { token: called.id, secret },
      body: { data: { approved: true } },
    });
    const dropped = await own.client.tokens.create();
    await api.ask("POST /api/tokens/{token}/cancel", {
      params: { token: dropped.id },
      body: { reason: "walk" },
    });
  });

  test("schedules", async () => {
    const wanted = { task: "branch", cron: "0 3 * * *", timezone: "Europe/Berlin" };
    const body = { deduplication_key: "walk", ...wanted, options: { priority: 1 } };
    const made = await api.ask("POST /api/schedules", { status: 201, body });
    await api.ask("POST /api/schedules", { status: 200, body });
    await api.ask("GET /api/schedules", { query: { limit: "5" } });
    const params = { schedule: made.id };
    await api.ask("GET /api/schedules/{schedule}", { params });
    await api.ask("PUT /api/schedules/{schedule}", { params, body: wanted });
    await api.ask("POST /api/schedules/{schedule}/deactivate", { params });
    await api.ask("POST /api/schedules/{schedule}/activate", { params });
    await api.ask("DELETE /api/schedules/{schedule}", { status: 204, params });
  });

  test("the audit log", async () => {
    await api.ask("GET /api/audit", { query: { limit: "5" } });
    await api.ask("GET /api/audit/export");
    await api.ask("POST /api/audit/verify");
  });

  test("workers, at last: they are sent away", async () => {
    const { workers } = await api.ask("GET /api/workers");
    const params = { worker: workers[0].id };
    await api.ask("GET /api/workers/{worker}", { params });
    const { worker_groups: groups } = await api.ask("GET /api/worker-groups");
    const group = { group: groups[0].name };
    await api.ask("POST /api/worker-groups/{group}/pause", { params: group });
    await api.ask("POST /api/worker-groups/{group}/activate", { params: group });
    await api.ask("POST /api/workers/{worker}/drain", { params, body: { timeout: "1h" } });
    await api.ask("POST /api/workers/{worker}/undrain", { params });
    await api.ask("POST /api/workers/{worker}/drain", { params });
    await api.ask("POST /api/workers/{worker}/disable", { params });
  });

  test("no operation was left out", () => {
    /* These two are WebSockets, which their own tests open. */
    const sockets = ["attach", "ports"].map((part) => new RegExp(`^GET /api/workspaces/.*/${part}\\b`));
    const left = contract.unwalked.filter((name) => !sockets.some((socket) => socket.test(name)));
    assert.deepEqual(left, []);
  });
});
