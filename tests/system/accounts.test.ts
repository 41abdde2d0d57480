// People and a server of their own: the first owner, members, the command line's login, and a real
// OpenID provider on loopback.
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { binary, helmr } from "./lib/helmr.ts";

const folder = mkdtempSync(`${tmpdir()}/helmr-accounts-`);
const password = "correct horse battery";
const clientSecret = randomBytes(24).toString("base64url");

let url = "";
let setupToken = "";
let server: ChildProcess | undefined;
let provider: Server | undefined;
let providerMissing = "";

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}

/** Cookies by origin, as a browser keeps them. */
class Browser {
  readonly cookies = new Map<string, Map<string, string>>();

  jar(origin: string): Map<string, string> {
    const jar = this.cookies.get(origin) ?? new Map<string, string>();
    this.cookies.set(origin, jar);
    return jar;
  }

  async visit(address: string, form?: Record<string, string>, origin?: string): Promise<Response> {
    const here = new URL(address);
    const jar = this.jar(here.origin);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(here, {
      redirect: "manual",
      method: form ? "POST" : "GET",
      headers: {
        ...(cookie && { Cookie: cookie }),
        ...(form && { Origin: origin ?? here.origin }),
      },
      ...(form && { body: new URLSearchParams(form) }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const at = pair.indexOf("=");
      if (/max-age=0(;|$)/i.test(line) || pair.endsWith("=")) jar.delete(pair.slice(0, at));
      else jar.set(pair.slice(0, at), pair.slice(at + 1));
    }
    return response;
  }

  get session(): string {
    return this.jar(url).get("helmr_session_dev") ?? "";
  }
}

async function api(path: string, token: string, method = "GET", body?: unknown) {
  const response = await fetch(`${url}/api${path}`, {
    method,
    headers: { ...(token && { Authorization: `Bearer ${token}` }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}

/* Who may sign in there: the name of the account is the e-mail. */
async function startProvider(port: number): Promise<void> {
  let Provider: any;
  try {
    const home = new URL("./provider/", import.meta.url).pathname;
    const install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    if (!existsSync(`${home}node_modules/oidc-provider`))
      execFileSync("npm", install, { cwd: home, stdio: "ignore", timeout: 120_000 });
    const entry = createRequire(`${home}package.json`).resolve("oidc-provider");
    ({ default: Provider } = await import(entry));
  } catch (error) {
    providerMissing = `oidc-provider cannot be installed: ${(error as Error).message.split("\n")[0]}`;
    return;
  }
  const issuer = `http://127.0.0.1:${port}`;
  const made = new Provider(issuer, {
    clients: [
      {
        client_id: "helmr",
        client_secret: clientSecret,
        redirect_uris: [`${url}/api/auth/oidc/callback`],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    cookies: { keys: [randomBytes(16).toString("hex")] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({
        sub: id,
        email: id,
        email_verified: !id.startsWith("unverified"),
        name: "From afar",
      }),
    }),
  });
  const listening = createServer(made.callback()).listen(port, "127.0.0.1");
  provider = listening;
  await once(listening, "listening");
}

before(async () => {
  const port = await freePort();
  const providerPort = await freePort();
  url = `http://127.0.0.1:${port}`;
  await startProvider(providerPort);
  mkdirSync(`${folder}/data/keys`, { recursive: true, mode: 0o700 });
  for (const name of ["master", "bootstrap"])
    writeFileSync(`${folder}/data/keys/${name}`, randomBytes(32).toString("base64"), { mode: 0o600 });
  const started = spawn(binary, ["server", "--data-dir", `${folder}/data`, "--addr", `127.0.0.1:${port}`], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      HELMR_DEV_LOGIN: "off",
      HELMR_LOG_LEVEL: "error",
      HELMR_OIDC_ISSUER: `http://127.0.0.1:${providerPort}`,
      HELMR_OIDC_CLIENT_ID: "helmr",
      HELMR_OIDC_CLIENT_SECRET: clientSecret,
    },
  });
  server = started;
  for await (const line of createInterface({ input: started.stdout })) {
    const found = /^setup: (.*)\/setup\?token=(\S+)$/.exec(line);
    if (!found) continue;
    assert.equal(found[1], url);
    setupToken = found[2] ?? "";
    break;
  }
  assert.match(setupToken, /^hlmr_st_/);
});

after(async () => {
  provider?.closeAllConnections();
  provider?.close();
  if (server && server.exitCode === null) {
    server.kill("SIGTERM");
    await once(server, "exit");
  }
  rmSync(folder, { recursive: true });
});

const owner = new Browser();

test("the printed token makes the first owner in a browser, once", async () => {
  assert.equal((await fetch(`${url}/dev/login`)).status, 404);
  const form = { token: setupToken, email: "ada@example.test", display_name: "Ada", password };
  assert.equal((await owner.visit(`${url}/setup`, form, "https://evil.example")).status, 403);
  const made = await owner.visit(`${url}/setup`, form);
  assert.equal(made.status, 303);
  assert.equal(made.headers.get("location"), "/");
  assert.equal((await owner.visit(`${url}/`)).status, 200);
  assert.equal((await new Browser().visit(`${url}/setup`, form)).status, 409);
  const me = await api("/me", owner.session);
  assert.equal(me.body.role, "owner");
});

test("a page that needs a session comes back after the sign-in", async () => {
  const browser = new Browser();
  const away = await browser.visit(`${url}/auth/device?user_code=BCDF-GHJK`);
  assert.equal(away.headers.get("location"), "/login?next=%2Fauth%2Fdevice%3Fuser_code%3DBCDF-GHJK");
  const page = await (await browser.visit(`${url}${away.headers.get("location")}`)).text();
  assert.ok(page.includes('name="next" value="/auth/device?user_code=BCDF-GHJK"'), page);
  const back = await browser.visit(`${url}/login`, {
    next: "/auth/device?user_code=BCDF-GHJK",
    email: "ada@example.test",
    password,
  });
  assert.equal(back.headers.get("location"), "/auth/device?user_code=BCDF-GHJK");
});

test("login shows a code, waits for a browser, and keeps the token to its user", async () => {
  const env = { HELMR_CONFIG_DIR: `${folder}/config` };
  const login = spawn(binary, ["login", url, "--no-browser"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...env },
  });
  const ended = once(login, "exit");
  let page = "";
  const said: string[] = [];
  for await (const line of createInterface({ input: login.stdout })) {
    said.push(line);
    const code = /^Code: (\S+)$/.exec(line)?.[1];
    if (!code) continue;
    page = await (await owner.visit(`${url}/auth/device?user_code=${code}`)).text();
    const form = { user_code: code, decision: "approved" };
    assert.equal((await owner.visit(`${url}/auth/device`, form)).status, 200);
  }
  assert.deepEqual(await ended, [0, null]);
  assert.ok(page.includes("ada@example.test"), page);
  assert.equal(said[0], `Visit ${url}/auth/device`);
  assert.deepEqual(said.slice(2), ["Waiting for authorization...", `Logged in to ${url}`]);
  assert.equal(statSync(`${folder}/config/credentials.toml`).mode & 0o777, 0o600);

  // The key of the shared Helmr is nobody here.
  const own = { env: { ...env, HELMR_API_KEY: "", HELMR_API_URL: "" } };
  const whoami = await helmr(["whoami"], own);
  assert.equal(
    whoami.stdout,
    `login ${url}\nuser: ada@example.test\nrole: owner\norganization: default\n`,
  );
  const logout = await helmr(["logout"], own);
  assert.equal(logout.stdout, `Logged out from ${url}\n`);
  assert.equal((await helmr(["whoami"], own)).code, 1);
});

/* Through the provider's own pages, until they lead back to us. */
async function signInAt(browser: Browser, account: string, next = "/"): Promise<Response> {
  let response = await browser.visit(`${url}/api/auth/oidc/start?next=${encodeURIComponent(next)}`);
  assert.equal(response.status, 303);
  for (let at = url, steps = 0; steps < 20; steps++) {
    const to = response.headers.get("location");
    if (!to) {
      // One of its forms: who are you, then: may Helmr know it.
      const page = await response.text();
      const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
      assert.ok(action, page);
      const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1] ?? "login";
      at = new URL(action, at).href;
      response = await browser.visit(at, { prompt, login: account, password: "anything" });
      continue;
    }
    at = new URL(to, at).href;
    response = await browser.visit(at);
    if (at.startsWith(`${url}/api/auth/oidc/callback`)) return response;
  }
  throw new Error("the provider does not come to an end");
}

test("who was invited signs in at the OpenID provider, with no password here", async (t) => {
  if (providerMissing) return t.skip(providerMissing);
  const invited = await api("/invitations", owner.session, "POST", {
    email: "grace@example.test",
    role: "developer",
  });
  assert.equal(invited.status, 201);
  const browser = new Browser();
  const back = await signInAt(browser, "grace@example.test", "/runs/1");
  assert.equal(back.status, 303, await back.text());
  assert.equal(back.headers.get("location"), "/runs/1");
  const me = await api("/me", browser.session);
  assert.equal(me.body.user.email, "grace@example.test");
  assert.equal(me.body.user.display_name, "From afar");
  assert.equal(me.body.role, "developer");
  assert.equal((await signInAt(new Browser(), "grace@example.test")).status, 303);
  const wrong = await api("/auth/login", "", "POST", { email: "grace@example.test", password });
  assert.equal(wrong.status, 401);
});

test("strangers and e-mails nobody verified stay out", async (t) => {
  if (providerMissing) return t.skip(providerMissing);
  await api("/invitations", owner.session, "POST", {
    email: "unverified@example.test",
    role: "viewer",
  });
  for (const account of ["mallory@example.test", "unverified@example.test", "owner@localhost"]) {
    const browser = new Browser();
    const back = await signInAt(browser, account);
    assert.equal(back.status, 403, account);
    assert.equal(((await back.json()) as any).code, "not_a_member");
    assert.equal(browser.session, "");
  }
  // Refusals share the room that is left for them, so one of several may be missing.
  const log = await api("/audit?action=login", owner.session);
  const denied = log.body.entries.filter((entry: any) => entry.outcome === "denied");
  assert.ok(
    denied.some((entry: any) => ["mallory@example.test", "unverified@example.test"].includes(entry.subject)),
    JSON.stringify(log.body.entries),
  );
});

test("a return that this browser did not start is refused", async (t) => {
  if (providerMissing) return t.skip(providerMissing);
  const browser = new Browser();
  const begun = await browser.visit(`${url}/api/auth/oidc/start?next=//evil.example`);
  const state = new URL(begun.headers.get("location") ?? "").searchParams.get("state") ?? "";
  const callback = `${url}/api/auth/oidc/callback`;
  const other = new Browser();
  assert.equal((await other.visit(`${callback}?code=x&state=${state}`)).status, 400);
  assert.equal((await browser.visit(`${callback}?code=x&state=another`)).status, 400);
  const denied = await browser.visit(`${callback}?error=access_denied&state=${state}`);
  assert.equal(((await denied.json()) as any).code, "access_denied");
  assert.equal(browser.session, "");
});
