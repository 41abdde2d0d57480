// The console as people use it, in a real browser: every page in both themes and on a phone, every action of runs and
// of the inbox, and nothing that a task can write is ever more than text.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, suite, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import {
  browserMissing,
  checkAccess,
  desk,
  openBrowser,
  openPhone,
  phone,
  picture,
  scriptBytes,
  settled,
  visit,
} from "./lib/console.ts";
import { patience } from "./lib/engine.ts";
import { examples, projects } from "./lib/helmr.ts";
import { foreign, hostile, texts } from "./lib/hostile.ts";
import { ready, startOwn, until } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";

/* What a theme changes is colours, so only they are looked at once more. */
const looks = [
  ["desk", desk, [["light"], ["dark", ["color-contrast"]]]],
  ["phone", phone, [["light"]]],
] as const satisfies [string, object, ["light" | "dark", string[]?][]][];

/* How much wider the page is than the screen. */
const beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/** As a link of the page does it, without loading everything again. */
const goTo = (page: Page, path: string): Promise<unknown> =>
  page.evaluate(
    `history.pushState(null, "", ${JSON.stringify(path)}); dispatchEvent(new PopStateEvent("popstate"))`,
  );

suite("the console", { skip: browserMissing }, () => {
  const scope = declaredScope();
  let own: Own;
  let browser: Browser;
  let example = "";

  const started = async (
    task: string,
    payload: object | null,
    options: object = {},
  ): Promise<string> => (await own.client.tasks.trigger(task, payload ?? undefined, options)).id;
  const retrieved = (id: string) => own.client.runs.retrieve(id);
  const ended = (id: string) => own.client.runs.wait(id, { timeoutMs: patience(60_000) });

  /** A run that waits, and its wait. */
  const asking = async (
    task = "migrate-orders",
    payload: object | null = { service: "billing" },
    options: object = {},
  ): Promise<{ run: string; wait: string }> => {
    const run = await started(task, payload, options);
    await until("a question", async () => (await retrieved(run)).pendingWait);
    return { run, wait: (await retrieved(run)).pendingWait?.id as string };
  };

  const parked = async (run: string): Promise<void> =>
    until("a parked run", async () => {
      const { body } = await own.api(`/runs/${run}/waits`);
      return body.waits.at(-1)?.checkpoint?.state === "ready";
    });

  const opened = async (path: string, options = desk): Promise<Page> => {
    const { page } = await visit(browser, own.place.url, options);
    await page.goto(own.place.url + path);
    return page;
  };

  before(async () => {
    own = await startOwn(scope, { env: { HELMR_WAIT_HOT_TIME: "0s" } });
    example = await own.deployed(`${examples}human-in-the-loop`);
    const deployment = await own.deployed(`${projects}console`);
    await own.printed(["deployment", "promote", deployment]);
    browser = await openBrowser(scope);
    await Promise.all([
      started("flaky-tests", {}).then(ended),
      started("flaky-tests", { passesAt: 2 }).then(ended),
      started("nightly-report", { ms: 600 }).then(ended),
      started("nightly-report", {}, { tags: ["nightly"] }).then(ended),
    ]);
  });

  test("one click signs in, on an overview of what runs, waits and failed, and on what", async () => {
    const { run } = await asking();
    const busy = await started("nightly-report", { ms: 20_000 });
    const { page, faults, strays } = await visit(browser, own.place.url);
    const part = (name: string) => page.getByRole("region", { name, exact: true });
    await part("Waiting for you").getByRole("link", { name: run.slice(-12) }).waitFor();
    await part("Running now").getByRole("link", { name: busy.slice(-12) }).waitFor();
    await part("Failed lately").getByText("1 of 214 tests failed").first().waitFor();
    await part("Workers").getByText(/\b(microvm|user-kernel|shared-kernel)\b/).waitFor();
    await part("Deployments").getByText("current").waitFor();
    for (const chart of [/^Runs: \d+ last/, /^Waits for people: /, /^Durations: [\d.]+ m?s/])
      await page.getByRole("img", { name: chart }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    await own.client.runs.cancel(busy);
    assert.deepEqual([faults, strays], [[], []]);
    await page.context().close();
  });

  test("every page, in both themes and on a phone, is accessible and without a fault", async () => {
    const { run } = await asking("migrate-orders", { service: "shop" });
    const { body } = await own.api("/runs?status=failed");
    const pages: [string, string][] = [
      ["overview", "/"],
      ["runs", "/runs"],
      ["runs-none", "/runs?search=nothing+is+like+that"],
      ["run", `/runs/${run}`],
      ...["Events", "Waits", "Changes", "Data", "Lineage"].map((tab): [string, string] => [
        `run-${tab.toLowerCase()}`,
        `/runs/${run}?tab=${tab}`,
      ]),
      ["run-failed", `/runs/${body.runs[0].id}`],
      ["run-attempts", `/runs/${body.runs[0].id}?tab=Lineage`],
      ["approvals", "/approvals"],
      ["approvals-answered", "/approvals?tab=Answered"],
    ];
    const seen = async ([look, options, themes]: (typeof looks)[number]): Promise<void> => {
      const { page, faults, strays } = await visit(browser, own.place.url, options);
      const checked = async (name: string): Promise<void> => {
        for (const [theme, rules] of themes) {
          await page.emulateMedia({ colorScheme: theme });
          await checkAccess(page, `${name} (${look}, ${theme})`, rules);
          await picture(page, `${name}-${look}${theme === "dark" ? "-dark" : ""}`);
        }
      };
      for (const [name, path] of pages) {
        await goTo(page, path);
        await page.locator("main h1").waitFor();
        await settled(page);
        await checked(name);
        assert.equal(await page.evaluate(beyond), 0, `${path} is wider than a ${look} screen`);
      }
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Where to" }).waitFor();
      await checked("palette");
      assert.deepEqual([faults, strays], [[], []], look);
      await page.context().close();
    };
    await Promise.all(looks.map(seen));
  });

  test("the first page comes with less than 150 KB of script", async () => {
    const { page } = await visit(browser, own.place.url);
    const bytes = await scriptBytes(page, own.place.url);
    assert.ok(bytes > 50_000 && bytes < 150 * 1024, `${bytes} bytes`);
    await page.context().close();
  });

  test("the keyboard goes everywhere, and an environment is known by its colour", async () => {
    const { run, wait } = await asking();
    const page = await opened("/");
    const heading = (name: string) => page.getByRole("heading", { name, exact: true, level: 1 });
    await heading("Overview").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("r");
    await heading("Runs").waitFor();
    await page.getByRole("link", { name: run.slice(-12) }).waitFor();
    await page.keyboard.press("j");
    await page.locator("tr[aria-current]").waitFor();
    await page.keyboard.press("o");
    await page.getByRole("tab", { name: "Log" }).waitFor();
    await page.getByRole("tab", { name: "Log" }).press("ArrowRight");
    await page.getByRole("tab", { name: "Events", selected: true }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).getByText("Approvals").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+k");
    await page.keyboard.insertText(run);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/runs/${run}`);
    await page.goto(`${own.place.url}/approvals#${wait}`);
    await page.getByRole("button", { name: "Approve" }).waitFor();
    /* Going there is no answer, though it ends with the letter of one. */
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await page.keyboard.press("/");
    await page.keyboard.insertText("staging");
    const color = () =>
      page.evaluate("document.querySelector('.shell').style.getPropertyValue('--environment')");
    const was = await color();
    await page.keyboard.press("Enter");
    await page.getByText("Nobody waits for you").waitFor();
    assert.notEqual(await color(), was);
    assert.equal((await retrieved(run)).status, "waiting");
    await page.context().close();
  });

  test("runs are filtered and searched, and the address says how", async () => {
    const page = await opened("/runs");
    const rows = page.locator("tbody tr[data-row]");
    await page.getByRole("button", { name: /^failed/ }).click();
    await page.getByText("1 of 214 tests failed").first().waitFor();
    await until("failed runs only", async () =>
      (await rows.allInnerTexts()).every((row) => row.includes("failed")),
    );
    await page.getByRole("button", { name: /^all/ }).click();
    await page.getByLabel("Task").selectOption("nightly-report");
    await page.getByLabel("Search in the runs").fill("NIGHTLY");
    await until("the filtered", async () => page.url().endsWith("task=nightly-report&search=NIGHTLY"));
    await page.getByLabel("Search in the runs").fill("tag that nobody has");
    await page.getByText("No run is like that").waitFor();
    await page.goto(`${own.place.url}/runs?search=nightly&status=succeeded`);
    await rows.first().waitFor();
    const shown = await rows.allInnerTexts();
    assert.ok(shown.length >= 2 && shown.every((row) => row.includes("nightly-report")), shown.join());
    await page.context().close();
  });

  test("a run's page tells its life, log, events, waits, changes and data", async () => {
    const { run, wait } = await asking("migrate-orders", { service: "ledger" });
    await parked(run);
    const page = await opened(`/runs/${run}`);
    const tab = async (name: string) => page.getByRole("tab", { name }).click();
    await page.getByRole("img", { name: /^Life of the run: queued .*running .*parked / }).waitFor();
    await page.getByRole("list", { name: "Waits" }).getByText(/waits .*, parked /).waitFor();

    const output = page.getByRole("log", { name: "Output" });
    await output.getByText("adds prices").waitFor();
    assert.equal(await output.locator(".ansi-fg-2").first().innerText(), "edit");
    await page.getByLabel("Stream").selectOption("stderr");
    assert.equal(await output.locator(".row").count(), 1);
    await page.getByLabel("Stream").selectOption("all");
    await page.getByLabel("Search in the log").fill("PASS");
    await page.getByText("1 of 3").waitFor();
    await page.getByLabel("Search in the log").press("Enter");
    await page.getByText("2 of 3").waitFor();
    await page.getByLabel("Search in the log").fill("");
    await page.getByRole("link", { name: "Line 4" }).click();
    assert.match(page.url(), /#L4$/);
    await page.reload();
    await output.locator(".row.is-marked").waitFor();
    const coming = page.waitForEvent("download");
    await page.getByRole("button", { name: "Download" }).click();
    const saved = await coming;
    assert.match(saved.suggestedFilename(), /^migrate-orders-.*\.log$/);
    assert.match(readFileSync(await saved.path(), "utf8"), /three files of .*ledger/);

    await tab("Events");
    await page.getByLabel("Search in the events").fill("checkpoint.ready");
    await page.getByRole("button", { name: "checkpoint.ready" }).click();
    await page.getByText('"stored_bytes"').waitFor();
    await tab("Changes");
    await page.getByText("src/orders/total.ts", { exact: true }).waitFor();
    await page.getByText("+export async function total(order: Order): Promise<Money> {").waitFor();
    await tab("Data");
    await page.getByText('"service": "ledger"').first().waitFor();
    await page.getByText("It has not returned yet.").waitFor();

    await page.keyboard.press("a");
    await tab("Waits");
    await page.getByText("by Local owner").waitFor();
    await page.getByText("approved", { exact: true }).waitFor();
    assert.equal((await ended(run)).status, "succeeded");
    await page.getByText("succeeded", { exact: true }).first().waitFor();
    assert.ok(wait);
    await page.context().close();
  });

  test("a run that failed says why and shows its attempts", async () => {
    const { body } = await own.api("/runs?status=failed");
    const page = await opened(`/runs/${body.runs[0].id}?tab=Lineage`);
    await page.getByText("at Object.run (tasks/work.ts").first().waitFor();
    await page.getByText("The task's own code failed.").waitFor();
    await page.getByText("Attempt 1", { exact: true }).waitFor();
    await page.getByText("tried again after 200 ms").waitFor();
    await page.getByText("Attempt 2", { exact: true }).waitFor();
    await page.context().close();
  });

  test("a run is run again, forked where it waits, and cancelled", async () => {
    const { run } = await asking("migrate-orders", { service: "forked" });
    await parked(run);
    const page = await opened(`/runs/${run}`);
    await page.getByRole("button", { name: "Run again" }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/runs/") && !url.pathname.includes(run));
    const again = page.url().split("/").at(-1) as string;
    assert.deepEqual((await retrieved(again)).payload, { service: "forked" });

    await page.goto(`${own.place.url}/runs/${run}`);
    await page.getByRole("button", { name: "Fork here" }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/runs/") && !url.pathname.includes(run));
    const fork = page.url().split("/").at(-1) as string;
    await page.getByRole("tab", { name: "Lineage" }).click();
    await page.getByText("forked from").waitFor();
    await page.goto(`${own.place.url}/runs/${run}?tab=Lineage`);
    await page.getByText("forked into").waitFor();
    await page.getByText(fork.slice(-12)).waitFor();

    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByRole("button", { name: "Keep" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.getByRole("group").getByRole("button", { name: "Cancel the run" }).click();
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    assert.equal((await ended(run)).status, "cancelled");
    for (const other of [again, fork]) await own.client.runs.cancel(other);
    await page.context().close();
  });

  test("the example is answered by keyboard, on a phone, and by a link that works once", async () => {
    const ask = () => asking("human-in-the-loop", null, { deploymentId: example });
    const [first, second] = await Promise.all([ask(), ask()]);
    const page = await opened("/approvals");
    await page.getByRole("link", { name: /Is this the right plan\?/ }).first().waitFor();
    await page.goto(`${own.place.url}/approvals#${first.wait}`);
    await page.getByText("2. Move the readers").waitFor();
    await page.keyboard.press("a");
    await page.getByText("Approved: Is this the right plan?").waitFor();

    /* Its second question is answered with a text, by thumb. */
    await until("the second question", async () => {
      const next = (await retrieved(first.run)).pendingWait;
      return next && next.id !== first.wait;
    });
    const handheld = await opened("/approvals", phone);
    await handheld.getByRole("link", { name: /takes over know/ }).tap();
    await handheld.getByLabel("Message").fill("The readers are elsewhere.");
    await picture(handheld, "approvals-answering-phone");
    await handheld.getByRole("button", { name: "Send" }).tap();
    await handheld.getByText("Answered: What should whoever takes over know?").waitFor();
    assert.deepEqual((await ended(first.run)).output, { handedOff: true, file: "handoff.txt" });
    await handheld.context().close();

    await page.goto(`${own.place.url}/approvals#${second.wait}`);
    await page.getByRole("button", { name: "Link to answer elsewhere" }).click();
    const link = await page.getByText(/\/answer\/.*#/).innerText();
    const stranger = await openPhone();
    await stranger.page.goto(link);
    await stranger.page.getByRole("button", { name: /reject|no/i }).tap();
    await stranger.page.getByText(/^Thank you/).waitFor();
    assert.deepEqual((await ended(second.run)).output, { handedOff: false });
    assert.deepEqual(stranger.faults, []);
    await stranger.page.goto("about:blank");
    await stranger.page.goto(link);
    await stranger.page.getByText(/does not work any more/).waitFor();
    await stranger.end();

    /* Both are in the history, with who answered. */
    await page.goto(`${own.place.url}/approvals?tab=Answered`);
    await page.getByText("by somebody with the link").waitFor();
    await page.getByText("The readers are elsewhere.").waitFor();
    await page.getByText("by Local owner").first().waitFor();
    await page.context().close();
  });

  test("an answer in JSON is a form where its schema says what it is, and says when it runs out", async () => {
    const schema = {
      type: "object",
      required: ["region", "replicas"],
      properties: {
        region: { type: "string", enum: ["eu-west", "us-east"], title: "Region" },
        replicas: { type: "integer", minimum: 1, maximum: 9, default: 2 },
        canary: { type: "boolean" },
      },
    };
    const text = "Where to?";
    const { run, wait } = await asking("asks", { form: "json", text, schema, timeout: "20m" });
    const page = await opened(`/approvals#${wait}`);
    await page.getByText(/^expires in 1\d min \d+ s$/).waitFor();
    const send = page.getByRole("button", { name: "Send" });
    await page.getByLabel("replicas").fill("12");
    await send.click();
    await page.getByText(/must be at most 9/).waitFor();
    await page.getByLabel("Region").selectOption("us-east");
    await page.getByLabel("replicas").fill("3");
    await page.getByLabel("canary").check();
    await picture(page, "approvals-form-desk");
    await send.click();
    await page.getByText("Answered: Where to?").waitFor();
    const { output } = await ended(run);
    assert.deepEqual(output, { answer: { canary: true, region: "us-east", replicas: 3 } });

    const raw = await asking("asks", { form: "json", text });
    await page.goto(`${own.place.url}/approvals#${raw.wait}`);
    await page.getByLabel("Answer as JSON").fill("{a");
    await send.click();
    await page.getByText(/^This is not JSON/).waitFor();
    await page.getByLabel("Answer as JSON").fill("[1, null]");
    await page.keyboard.press("Control+Enter");
    assert.deepEqual((await ended(raw.run)).output, { answer: [1, null] });
    await page.context().close();
  });

  test("what is answered elsewhere leaves the inbox by itself, and its old link says so", async () => {
    const { run, wait } = await asking("asks", { form: "approval", text: "Elsewhere?" });
    const page = await opened(`/approvals#${wait}`);
    const link = page.getByRole("link", { name: /Elsewhere\?/ });
    await link.waitFor();
    await own.client.tokens.complete({ id: wait }, { approved: true });
    await link.waitFor({ state: "detached" });
    await page.getByText("That question is no longer open.").waitFor();
    await ended(run);
    await page.context().close();
  });

  test("what a task can write is text on every page", async () => {
    const tags = texts.slice(0, 5).map((text) => text.slice(0, 40));
    const note = { metadata: { note: texts }, tags };
    const { run, wait } = await asking("echo", { texts }, note);
    const broken = await started("echo", { texts, fails: true }, note);
    const { sessionId, workspaceId } = await retrieved(run);
    await own.client.sessions.open(sessionId).input("words").send({ texts });
    await ended(broken);
    const { page, faults } = await visit(browser, own.place.url);
    const places: Record<string, string> = {
      overview: "/",
      runs: "/runs",
      "runs, searched": `/runs?search=${encodeURIComponent(texts[0] as string)}`,
      "the wait": `/approvals#${wait}`,
      answers: "/approvals?tab=Answered",
      session: `/sessions/${sessionId}`,
      workspace: `/workspaces/${workspaceId}`,
      ...Object.fromEntries(
        ["Log", "Events", "Waits", "Changes", "Data", "Lineage"].map((tab) => [
          tab,
          `/runs/${run}?tab=${tab}`,
        ]),
      ),
      failure: `/runs/${broken}`,
    };
    const image = hostile["an image that fails"] as string;
    const shows = ["the wait", "Log", "Data", "Changes", "failure", "runs"];
    for (const [name, path] of Object.entries(places)) {
      await page.goto(own.place.url + path);
      await page.locator("main h1").waitFor();
      if (shows.includes(name)) await page.getByText(image.slice(0, 20)).first().waitFor();
      await settled(page);
      assert.equal(await page.evaluate("window.hit"), undefined, name);
      const found = `document.querySelectorAll(${JSON.stringify(foreign)})`;
      assert.deepEqual(await page.evaluate(`[...${found}].map((one) => one.outerHTML)`), [], name);
      assert.equal(await page.evaluate(beyond), 0, `${name} is wider than the screen`);
    }
    await picture(page, "hostile-desk");
    assert.deepEqual(faults, []);
    await own.client.runs.cancel(run);
    await page.context().close();
  });

  test("a page says when the server is gone, and goes on by itself when it is back", async () => {
    const { page } = await visit(browser, own.place.url);
    await page.getByText("Live", { exact: true }).waitFor();
    assert.equal(await own.server.end("SIGTERM"), 0);
    await page.getByText("Reconnecting…").waitFor();
    await page.getByText("The server cannot be reached.").first().waitFor();
    /* What was there still is. */
    await page.getByRole("region", { name: "Newest runs" }).waitFor();
    await picture(page, "lost-desk");
    own.server.start();
    await ready(own.place.url);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByText("The server cannot be reached.").first().waitFor({ state: "detached" });
    const { run } = await asking();
    await page.getByRole("link", { name: run.slice(-12) }).first().waitFor();
    await page.context().close();
  });

  test("without a network the page stays, and is current again with it", async () => {
    const { page } = await visit(browser, own.place.url);
    await page.getByText("Live", { exact: true }).waitFor();
    /* The other pages come once the first is there. */
    await until("every page", () =>
      page.evaluate("performance.getEntriesByType('resource').some(({ name }) => /approvals-/.test(name))"),
    );
    await page.context().setOffline(true);
    await page.getByText("Reconnecting…").waitFor();
    const { run } = await asking();
    await page.getByRole("link", { name: "Approvals" }).click();
    await page.getByRole("heading", { name: "Approvals", level: 1 }).waitFor();
    await page.context().setOffline(false);
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("link", { name: run.slice(-12) }).first().waitFor();
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
    const { run } = await asking();
    await page.goto(`${own.place.url}/runs/${run}`);
    await page.getByText("Your role may not answer this.").waitFor();
    assert.equal(await page.getByRole("button", { name: /cancel|run again|fork/i }).count(), 0);
    assert.equal(await page.getByRole("link", { name: "Secrets" }).count(), 0);
    await page.keyboard.press("a");
    await page.goto(`${own.place.url}/settings/secrets`);
    await page.getByText("Ask an owner for a role that may do this.").waitFor();
    const refused = await page.evaluate(
      `fetch("/api/runs/${run}/cancel", { method: "POST", body: "{}" }).then(({ status }) => status)`,
    );
    assert.equal(refused, 403);
    assert.equal((await retrieved(run)).status, "waiting");
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
