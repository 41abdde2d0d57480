// The console as people use it, in a real browser: every page in both themes, answers by keyboard and on a phone, and
// nothing that a task can write is ever more than text.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import type { Browser } from "playwright-core";
import {
  browserMissing,
  checkAccess,
  desk,
  openBrowser,
  phone,
  picture,
  visit,
} from "./lib/console.ts";
import { projects } from "./lib/helmr.ts";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";

const hostile = `"><img src=x onerror="window.hit=1"><script>window.hit=1</script>\u001b[31mred\u001b]8;;javascript:window.hit=1\u0007x`;

suite("the console", { skip: browserMissing }, () => {
  const scope = declaredScope();
  let own: Own;
  let browser: Browser;
  let deployment = "";

  const asks = async (payload: object = { name: "Ada" }, options: object = {}): Promise<string> => {
    const { id } = await own.client.tasks.trigger("approve", payload, options);
    await until("a question", async () => (await own.client.runs.retrieve(id)).pendingWait);
    return id;
  };

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    deployment = await own.deployed(`${projects}waits`);
    await own.printed(["deployment", "promote", deployment]);
    browser = await openBrowser(scope);
  });

  test("one click signs in, on an overview with what is there", async () => {
    const run = await asks();
    const { page, faults, strays } = await visit(browser, own.place.url);
    await page.getByText("Waiting for you").waitFor();
    await page
      .getByRole("link", { name: run.slice(-12) })
      .first()
      .waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    assert.deepEqual([faults, strays], [[], []]);
    await page.context().close();
  });

  test("every page, in both themes and on a phone, is accessible and without a fault", async () => {
    const run = await asks();
    const { sessionId } = await own.client.runs.retrieve(run);
    const pages = [
      "/",
      "/runs?status=all",
      `/runs/${run}`,
      `/runs/${run}?tab=Events`,
      `/runs/${run}?tab=Waits`,
      `/runs/${run}?tab=Changes`,
      `/runs/${run}?tab=Data`,
      "/approvals",
      "/sessions",
      `/sessions/${sessionId}`,
      "/tasks",
      "/tasks/approve",
      "/deployments",
      `/deployments/${deployment}`,
      "/schedules",
      "/settings/workers",
      "/settings/secrets",
      "/settings/api-keys",
      "/settings/members",
      "/settings/projects",
      "/settings/environments",
      "/settings/audit",
    ];
    const looks = [
      ["light", { ...desk, colorScheme: "light" as const }],
      ["dark", { ...desk, colorScheme: "dark" as const }],
      ["phone", phone],
    ] as const;
    for (const [look, options] of looks) {
      const { page, faults, strays } = await visit(browser, own.place.url, options);
      for (const path of pages) {
        await page.goto(own.place.url + path);
        await page.locator("main h1").waitFor();
        await page.waitForLoadState("load");
        await checkAccess(page, `${path} (${look})`);
        await picture(
          page,
          `${path
            .replace(run, "run")
            .replace(sessionId, "session")
            .replace(deployment, "deployment")
            .replaceAll(/[^a-z-]+/gi, "-")}-${look}`,
        );
        const beyond = await page.evaluate(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert.equal(beyond, 0, `${path} is wider than a ${look} screen`);
      }
      assert.deepEqual([faults, strays], [[], []], look);
      await page.context().close();
    }
  });

  test("a question is answered from the inbox by keyboard, and the run goes on", async () => {
    const run = await asks({ name: "keys" });
    const wait = (await own.client.runs.retrieve(run)).pendingWait;
    const { page } = await visit(browser, own.place.url);
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await page.getByRole("heading", { name: "Approvals" }).waitFor();
    await page.goto(`${own.place.url}/approvals#${wait?.id}`);
    await page.getByText("before.txt", { exact: true }).waitFor();
    await page.keyboard.press("a");
    await page.getByText("Approved: Go on?").waitFor();
    const over = await own.client.runs.wait(run);
    assert.equal(over.status, "succeeded");
    assert.deepEqual((over.output as { answer: unknown }).answer, { approved: true });
    await page.context().close();
  });

  test("a question is answered on a phone, with a message", async () => {
    const run = await asks({ name: "phone" });
    const wait = (await own.client.runs.retrieve(run)).pendingWait;
    const { page } = await visit(browser, own.place.url, phone);
    await page.goto(`${own.place.url}/approvals#${wait?.id}`);
    await page.getByLabel("Message (optional)").fill("not today");
    await page.getByRole("button", { name: "Reject" }).tap();
    await page.getByText("Answered: Go on?").waitFor();
    const over = await own.client.runs.wait(run);
    assert.deepEqual((over.output as { answer: unknown }).answer, {
      approved: false,
      message: "not today",
    });
    await page.context().close();
  });

  test("what a task can write is text on every page", async () => {
    const run = await asks(
      { name: hostile },
      { metadata: { note: hostile }, tags: [hostile.slice(0, 60)] },
    );
    const { session } = await own.client.sessions.start("branch", {});
    const sessionId = session.id;
    await own.client.sessions.open(sessionId).input("notes").send({ text: hostile });
    const { page, faults } = await visit(browser, own.place.url);
    for (const path of [
      "/",
      "/runs?status=all",
      `/runs/${run}`,
      `/runs/${run}?tab=Events`,
      `/runs/${run}?tab=Changes`,
      `/runs/${run}?tab=Data`,
      "/approvals",
      `/sessions/${sessionId}`,
    ]) {
      await page.goto(own.place.url + path);
      await page.locator("main h1").waitFor();
      await page.waitForTimeout(500);
      assert.equal(await page.evaluate("window.hit"), undefined, path);
      assert.equal(await page.locator("main img, main script").count(), 0, path);
    }
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test("a page says when the server is gone, and goes on by itself when it is back", async () => {
    const { page } = await visit(browser, own.place.url);
    await page.getByText("Live", { exact: true }).waitFor();
    assert.equal(await own.server.end("SIGTERM"), 0);
    await page.getByText("Reconnecting…").waitFor();
    own.server.start();
    await ready(own.place.url);
    await page.getByText("Live", { exact: true }).waitFor();
    const run = await asks({ name: "later" });
    await page
      .getByRole("link", { name: run.slice(-12) })
      .first()
      .waitFor();
    await page.context().close();
  });

  test("a person who may only look is offered nothing else, and is refused it", async () => {
    const invited = await own.api("/invitations", {
      method: "POST",
      key: own.session,
      body: JSON.stringify({ email: "viewer@example.com", role: "viewer" }),
    });
    assert.equal(invited.status, 201, JSON.stringify(invited.body));
    const token =
      new URL(invited.body.invite_url).hash.slice(1) ||
      new URL(invited.body.invite_url).searchParams.get("token");
    const joined = await own.api("/auth/invitations/accept", {
      method: "POST",
      body: JSON.stringify({ token, display_name: "Viewer", password: "a long enough password" }),
    });
    const cookie = (joined.headers.get("set-cookie") ?? "").split(";")[0] as string;
    const context = await browser.newContext(desk);
    await context.addCookies([
      {
        name: cookie.slice(0, cookie.indexOf("=")),
        value: cookie.slice(cookie.indexOf("=") + 1),
        url: own.place.url,
      },
    ]);
    const page = await context.newPage();
    const run = await asks({ name: "looked at" });
    await page.goto(`${own.place.url}/runs/${run}`);
    await page.getByText("Your role may not answer this.").waitFor();
    assert.equal(await page.getByRole("button", { name: /cancel|run again|fork/i }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "Secrets" }).count(), 0);
    await page.goto(`${own.place.url}/settings/secrets`);
    await page.getByText("Ask an owner for a role that may do this.").waitFor();
    const refused = await page.evaluate(
      `fetch("/api/runs/${run}/cancel", { method: "POST", body: "{}" }).then(({ status }) => status)`,
    );
    assert.equal(refused, 403);
    await context.close();
  });

  test("the pages let in no script but their own, and stand in nobody's frame", async () => {
    const { page } = await visit(browser, own.place.url);
    const headers = (await page.request.get(`${own.place.url}/`)).headers();
    assert.match(
      headers["content-security-policy"] ?? "",
      /script-src 'self';.*frame-ancestors 'none'/,
    );
    assert.equal(headers["x-frame-options"], "DENY");
    await page.context().close();
  });
});
