// Tokens without a run: made, shown, completed, cancelled and expired, by key, by link and by
// callback address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AuthError, HelmrApiError } from "@helmr/sdk";
import { api, client, printed, url } from "./lib/helmr.ts";
import { until } from "./lib/own.ts";

const refused =
  (status: number, code: string) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof HelmrApiError, String(error));
    assert.deepEqual([error.status, error.code], [status, code]);
    return true;
  };

async function post(address: string, body: string): Promise<{ status: number; body: any }> {
  const response = await fetch(address, { method: "POST", body });
  return { status: response.status, body: await response.json() };
}

test("a token is shown as it was made, its secrets only once", async () => {
  const metadata = { prompt: "Go on?" };
  const made = await client.tokens.create({ timeout: "1h", tags: ["a", "b"], metadata });
  assert.equal(made.status, "pending");
  assert.ok(made.callbackUrl.startsWith(`${url}/api/v1/tokens/${made.id}/callback/`));
  const { callbackUrl: _callback, publicAccessToken, ...shown } = made;
  assert.deepEqual(await client.tokens.retrieve(made), shown);
  assert.deepEqual([shown.tags, shown.metadata], [["a", "b"], metadata]);
  const length = (shown.timeoutAt as Date).getTime() - shown.createdAt.getTime();
  assert.equal(length, 3_600_000);
  const { body } = await api(`/tokens/${made.id}`);
  assert.ok(!JSON.stringify(body).includes(publicAccessToken));
  assert.ok(!("callback_url" in body) && !("public_access_token" in body));
});

test("the same idempotency key makes one token, and shows its secrets again", async () => {
  const options = { idempotencyKey: `tokens-${process.pid}`, tags: ["a"] };
  const [one, two] = [await client.tokens.create(options), await client.tokens.create(options)];
  assert.deepEqual(two, one);
  await assert.rejects(
    client.tokens.create({ ...options, tags: ["b"] }),
    refused(409, "idempotency_fingerprint_mismatch"),
  );
});

test("a token is completed once; equal data again is no conflict", async () => {
  const token = await client.tokens.create();
  const first = await client.tokens.complete(token, { a: 1, b: [null] });
  assert.equal(first.status, "completed");
  assert.deepEqual(first.token.data, { a: 1, b: [null] });
  assert.ok(first.token.completedAt);
  assert.equal(first.token.completedBy?.type, "key");
  // Whatever the order of members.
  assert.equal((await client.tokens.complete(token, { b: [null], a: 1 })).status, "already_completed");
  await assert.rejects(
    client.tokens.complete(token, { a: 2 }),
    refused(409, "token_completion_conflict"),
  );
  await assert.rejects(client.tokens.complete(token), refused(409, "token_completion_conflict"));
});

test("many who complete a token at once: one of them does", async () => {
  const token = await client.tokens.create();
  const tries = await Promise.allSettled(
    Array.from({ length: 12 }, (_, n) => client.tokens.complete(token, n)),
  );
  const won = tries.filter(({ status }) => status === "fulfilled");
  assert.equal(won.length, 1);
  const { data } = await client.tokens.retrieve(token);
  assert.equal(tries[data as number]?.status, "fulfilled");
});

test("a cancelled token stays so, and so does a completed one", async () => {
  const token = await client.tokens.create();
  assert.equal((await client.tokens.cancel(token, { reason: "too late" })).status, "cancelled");
  await assert.rejects(client.tokens.complete(token, 1), refused(409, "token_cancelled"));
  const done = await client.tokens.create();
  await client.tokens.complete(done, 1);
  await assert.rejects(client.tokens.cancel(done), (error) => error instanceof HelmrApiError);
  assert.equal((await client.tokens.retrieve(done)).status, "completed");
});

test("a token nobody completed expires when it says", async () => {
  const token = await client.tokens.create({ timeout: "1s" });
  await until("it expired", async () => (await client.tokens.retrieve(token)).status === "expired");
  await assert.rejects(client.tokens.complete(token, 1), refused(410, "token_expired"));
  assert.equal((await post(token.callbackUrl, "1")).body.code, "token_expired");
});

test("an unknown token is not found, whoever asks", async () => {
  const id = "00000000-0000-7000-8000-000000000000";
  await assert.rejects(client.tokens.retrieve(id), refused(404, "token_not_found"));
  await assert.rejects(client.tokens.complete(id, 1), refused(404, "token_not_found"));
  const { callbackUrl } = await client.tokens.create();
  const { status } = await post(`${callbackUrl.slice(0, -4)}0000`, "1");
  assert.ok(status === 401 || status === 404, `${status}`);
});

const bodies: [string, string, unknown][] = [
  ["exactly a member data", '{"data":{"n":1}}', { n: 1 }],
  ["more members than data", '{"data":1,"more":2}', { data: 1, more: 2 }],
  ["any other JSON", '["as it is"]', ["as it is"]],
  ["nothing in data", '{"data":null}', null],
];

for (const [what, body, data] of bodies)
  test(`a callback with ${what} is understood`, async () => {
    const token = await client.tokens.create();
    const answer = await post(token.callbackUrl, body);
    assert.deepEqual([answer.status, answer.body.status], [200, "completed"]);
    assert.deepEqual((await client.tokens.retrieve(token)).data, data);
  });

test("a callback that is no JSON is refused and completes nothing", async () => {
  const token = await client.tokens.create();
  assert.equal((await post(token.callbackUrl, "{")).status, 400);
  assert.equal((await client.tokens.retrieve(token)).status, "pending");
});

test("a token's own public access token completes it and nothing else", async () => {
  const [one, two] = [await client.tokens.create(), await client.tokens.create()];
  const { publicAccessToken } = one;
  await assert.rejects(client.tokens.complete(two, 1, { publicAccessToken }), AuthError);
  const seen = await fetch(`${url}/api/v1/tokens/${one.id}`, {
    headers: { authorization: `Bearer ${publicAccessToken}`, origin: "https://example.com" },
  });
  assert.equal(seen.status, 200);
  assert.ok(seen.headers.get("access-control-allow-origin"));
  const shown = (await seen.json()) as object;
  assert.deepEqual(Object.keys(shown).sort(), ["id", "metadata", "status", "timeout_at"]);
  assert.equal((await client.tokens.complete(one, 1, { publicAccessToken })).status, "completed");
  assert.equal((await api("/tokens", { key: publicAccessToken })).status, 401);
});

test("a link for one answer takes one, and its repetition", async () => {
  const token = await client.tokens.create();
  const scope = { type: "token.complete", token } as const;
  const link = await client.auth.createPublicToken({ scope, maxUses: 1 });
  assert.equal(link.maxUses, 1);
  assert.equal(link.url, `${url}/answer/${token.id}#${link.publicAccessToken}`);
  const { publicAccessToken } = link;
  const other = await client.tokens.create();
  await assert.rejects(client.tokens.complete(other, 1, { publicAccessToken }), AuthError);
  assert.equal((await client.tokens.complete(token, 1, { publicAccessToken })).status, "completed");
  const again = await client.tokens.complete(token, 1, { publicAccessToken });
  assert.equal(again.status, "already_completed");
  await assert.rejects(client.tokens.complete(token, 2, { publicAccessToken }));
});

test("a revoked or expired link is worth nothing", async () => {
  const token = await client.tokens.create();
  const scope = { type: "token.complete", token } as const;
  const revoked = await client.auth.createPublicToken({ scope });
  assert.equal((await api(`/public-access-tokens/${revoked.id}`, { method: "DELETE" })).status, 204);
  const short = await client.auth.createPublicToken({ scope, expiresAt: new Date(Date.now() + 500) });
  await until("it is over", () => Date.now() > short.expiresAt.getTime());
  for (const { publicAccessToken } of [revoked, short])
    await assert.rejects(client.tokens.complete(token, 1, { publicAccessToken }), AuthError);
  assert.equal((await client.tokens.retrieve(token)).status, "pending");
});

test("tokens are listed by status, newest first, a page at a time", async () => {
  const tag = `list-${process.pid}`;
  const made = [];
  for (let n = 0; n < 3; n++) made.push((await client.tokens.create({ tags: [tag] })).id);
  const first = await client.tokens.listPage({ status: "pending", limit: 2 });
  assert.deepEqual(
    first.tokens.map(({ id }) => id),
    [made[2], made[1]],
  );
  assert.ok(first.nextCursor);
  const next = await client.tokens.list({ status: "pending", limit: 1, cursor: first.nextCursor });
  assert.equal(next[0]?.id, made[0]);
  await client.tokens.cancel(made[1] as string);
  const [newest] = await client.tokens.list({ status: "cancelled", limit: 1 });
  assert.equal(newest?.id, made[1]);
});

test("the command line makes, shows, completes and cancels tokens", async () => {
  const made = await printed(["token", "create", "--timeout", "1h", "--tag", "cli"]);
  const id = /^Token: +(\S+)$/m.exec(made)?.[1] as string;
  assert.match(made, /^Callback: +http/m);
  assert.match(await printed(["token", "list", "--status", "pending"]), new RegExp(`^${id}\\t`, "m"));
  assert.match(await printed(["token", "get", id]), /pending/);
  const args = ["token", "complete", id, "--data-json", '{"a":1}'];
  assert.match(await printed(args), /^completion_status: completed$/m);
  assert.match(await printed(args), /^completion_status: already_completed$/m);
  const other = await client.tokens.create();
  assert.equal(await printed(["token", "cancel", other.id]), `${other.id} cancelled\n`);
});
