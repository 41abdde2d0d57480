// Logs and lists of a size that people do not scroll through, in a real browser.
import assert from "node:assert/strict";
import { before, suite, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
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

/** From end to end in steps, each drawn; what is on the screen is never empty. */
async function scrollThrough(page: Page, box: Locator): Promise<void> {
  for (let part = 0; part <= 20; part++) {
    await box.evaluate((one, to) => one.scrollTo({ top: one.scrollHeight * to }), part / 20);
    await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))");
    assert.ok((await box.locator(".row").count()) > 10, `nothing is shown at ${part} of 20`);
  }
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
    const output = page.getByRole("log", { name: "Output" });
    const search = page.getByLabel("Search in the log");
    await search.fill("00777");
    await page.getByText(/^1 of [\d,]+$/).waitFor();
    await own.client.runs.wait(id, { timeoutMs: patience(600_000) });
    await page
      .getByText(`${lines.toLocaleString("en")} lines`)
      .waitFor({ timeout: patience(300_000) });
    /* Nobody went up meanwhile, so the end is what one sees, and little more is on the page. */
    await page.getByLabel(`Line ${lines}`, { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Follow").isChecked(), true);
    assert.ok((await output.locator(".row").count()) < 150);
    await search.fill("no such words");
    await page.getByText("nothing found").waitFor({ timeout: patience(60_000) });
    await search.fill("");
    await scrollThrough(page, output);
    t.diagnostic(await told());
    await output.evaluate((box) => box.scrollTo({ top: 0 }));
    await page.getByLabel("Line 1", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Follow").isChecked(), false);
    await page.goto(`${own.place.url}/runs/${id}#L${lines - 10}`);
    await page.reload();
    await page
      .getByLabel(`Line ${lines - 10}`, { exact: true })
      .waitFor({ timeout: patience(300_000) });
    assert.deepEqual(faults, []);
    await page.context().close();
  });

  test(`${runs} runs are a list that can be scrolled to its end and searched`, async (t) => {
    for (const worker of own.workers) assert.equal(await worker.end("SIGTERM"), 0);
    let oldest = "";
    for (let made = 0; made < runs; made += 100) {
      const some = await Promise.all(
        Array.from({ length: 100 }, () => own.client.tasks.trigger("naps", { ms: 1 })),
      );
      oldest ||= some.map(({ id }) => id).toSorted()[0] as string;
    }
    const { page, faults } = await visit(browser, own.place.url);
    await page.goto(`${own.place.url}/runs?status=queued`);
    const told = await watchLongTasks(page);
    const rows = page.locator("tr[data-row]");
    const status = page.getByRole("status").getByText(/runs$/);
    await rows.first().waitFor();
    /* The end moves away while older ones come, until all are there. */
    for (;;) {
      await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)");
      await page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))");
      assert.ok((await rows.count()) < 150, "rows that nobody sees are not on the page");
      if ((await status.innerText()) === `${runs.toLocaleString("en")} runs`) break;
    }
    await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)");
    await page.getByRole("link", { name: oldest.slice(-12) }).waitFor();
    await page.evaluate("window.scrollTo(0, 0)");
    await page.getByLabel("Search in the runs").fill(oldest);
    await page.getByText(`1 of ${runs.toLocaleString("en")} runs`).waitFor();
    t.diagnostic(await told());
    assert.deepEqual(faults, []);
    await page.context().close();
  });
});
