// Logs and lists of a size that people do not scroll through, in a real browser.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { browserMissing, openBrowser, visit } from "./lib/console.ts";
import { patience } from "./lib/engine.ts";
import { projects } from "./lib/helmr.ts";
import { startOwn } from "./lib/own.ts";
import type { Own } from "./lib/own.ts";
import { declaredScope } from "./lib/scope.ts";

const lines = 1_000_000;
/* Such a line of the task `floods` is 128 bytes long. */
const lineBytes = 128;
const runs = 10_000;

/** How often and for how long the page could not answer, from here on. */
async function watchLongTasks(page: Page): Promise<() => Promise<string>> {
  await page.evaluate(`window.long = []; new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.long.push(duration);
  }).observe({ type: "longtask" })`);
  return async () => {
    const long = (await page.evaluate("window.long")) as number[];
    return `${long.length} long tasks, the longest of ${Math.round(Math.max(0, ...long))} ms`;
  };
}

suite("the console with very much", { skip: browserMissing }, () => {
  const scope = declaredScope();
  let own: Own;
  let browser: Browser;

  before(async () => {
    own = await startOwn(scope);
    await own.printed(["deployment", "promote", await own.deployed(`${projects}tasks`)]);
    browser = await openBrowser(scope);
  });

  test(`a log of ${lines} lines is followed live while it is searched`, async (t) => {
    const { page, faults } = await visit(browser, own.place.url);
    const { id } = await own.client.tasks.trigger("floods", { bytes: lines * lineBytes });
    await page.goto(`${own.place.url}/runs/${id}`);
    const told = await watchLongTasks(page);
    const search = page.getByLabel("Search in the log");
    await search.fill("00777");
    await page
      .getByText(/of \d+/)
      .first()
      .waitFor();
    await own.client.runs.wait(id, { timeoutMs: patience(600_000) });
    await page
      .getByText(`${lines.toLocaleString("en")} lines`)
      .waitFor({ timeout: patience(300_000) });
    await search.fill("no such words");
    await page.getByText("nothing found").waitFor();
    await search.fill("");
    await page.getByLabel("Output").evaluate((box) => box.scrollTo({ top: 0 }));
    await page.getByLabel("Line 1", { exact: true }).waitFor();
    await page.goto(`${own.place.url}/runs/${id}#L${lines - 10}`);
    await page
      .getByLabel(`Line ${lines - 10}`, { exact: true })
      .waitFor({ timeout: patience(300_000) });
    t.diagnostic(await told().catch(() => "the page was loaded anew"));
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test(`${runs} runs are a list that can be scrolled`, async (t) => {
    for (const worker of own.workers) assert.equal(await worker.end("SIGTERM"), 0);
    for (let made = 0; made < runs; made += 100)
      await Promise.all(
        Array.from({ length: 100 }, () => own.client.tasks.trigger("naps", { ms: 1 })),
      );
    const { page, faults } = await visit(browser, own.place.url);
    await page.goto(`${own.place.url}/runs?status=queued`);
    const told = await watchLongTasks(page);
    await page.getByText("100 shown").waitFor();
    for (let shown = 200; shown <= 2000; shown += 100) {
      await page.getByRole("button", { name: "Older runs" }).click();
      await page.getByText(`${shown} shown`).waitFor();
      await page.mouse.wheel(0, 5000);
    }
    t.diagnostic(await told());
    assert.deepEqual(faults, []);
    await page.context().close();
  });
});
