// The console in a real browser: signed in by its one click, with every fault of a page noted.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { browser as executablePath } from "../../../sdk/typescript/test/browser.ts";
import type { Scope } from "./scope.ts";

export { browserMissing } from "../../../sdk/typescript/test/browser.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = `${process.env.B ?? "build"}/screenshots`;

export const desk: BrowserContextOptions = { viewport: { width: 1360, height: 900 } };
export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
};

const launch = (): Promise<Browser> =>
  chromium.launch({
    ...(executablePath !== undefined && { executablePath }),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"],
  });

export async function openBrowser(t: Scope): Promise<Browser> {
  const browser = await launch();
  t.after(() => browser.close());
  return browser;
}

/* A browser gives requests up when the host's links change, and sandboxes beside it have links. It says so, or shows
   a page of its own that the next navigation interrupts. */
const passing = "ERR_NETWORK_CHANGED";
const isPassing = (text: string): boolean => text.includes(passing) || text.includes("chrome-error://");

function noteFaults(page: Page): string[] {
  const faults: string[] = [];
  const goTo = page.goto.bind(page);
  page.goto = async (...to) => {
    for (let tries = 0; ; tries++)
      try {
        return await goTo(...to);
      } catch (error) {
        if (tries === 10 || !isPassing(String(error))) throw error;
      }
  };
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes(passing))
      faults.push(message.text());
  });
  return faults;
}

/** A phone of somebody who is not signed in. */
export async function openPhone(): Promise<{ page: Page; faults: string[]; end(): Promise<void> }> {
  const browser = await launch();
  const page = await (await browser.newContext(phone)).newPage();
  return { page, faults: noteFaults(page), end: () => browser.close() };
}

export interface Visit {
  readonly page: Page;
  /** What the browser complained of: errors of scripts, and files and styles its policy refused. */
  readonly faults: string[];
  /** Requests that went anywhere but to the server. */
  readonly strays: string[];
}

/** A person who has just signed in. */
export async function visit(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = desk,
): Promise<Visit> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = noteFaults(page);
  const strays: string[] = [];
  page.on("request", (request) => {
    const at = request.url();
    if (!at.startsWith(url) && !at.startsWith("data:") && !at.startsWith("blob:")) strays.push(at);
  });
  await page.goto(`${url}/dev/login`);
  await page.getByRole("button", { name: /sign in as the local owner/i }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  return { page, faults, strays };
}

/** Until nothing more has come for a moment; streams stay open, so a page is never without a request. */
export async function settled(page: Page): Promise<void> {
  await page.evaluate(`new Promise((resolve) => {
    let came = -1;
    const look = () => {
      const now = performance.getEntriesByType("resource").length;
      if (now === came) resolve();
      came = now;
      setTimeout(look, 100);
    };
    look();
  })`);
}

/** What the scripts of the first page weigh on the wire, without a cache. */
export async function scriptBytes(page: Page, url: string): Promise<number> {
  const cdp = await page.context().newCDPSession(page);
  const scripts = new Set<string>();
  let bytes = 0;
  cdp.on("Network.responseReceived", ({ requestId, response }) => {
    if (new URL(response.url).pathname.endsWith(".js")) scripts.add(requestId);
  });
  cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (scripts.has(requestId)) bytes += encodedDataLength;
  });
  await cdp.send("Network.enable");
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  await page.goto(url);
  await page.getByText("Newest runs").waitFor();
  await page.waitForLoadState("load");
  await cdp.detach();
  return bytes;
}

export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/${name}.png` });
}

interface Violation {
  id: string;
  nodes: { html: string; failureSummary?: string }[];
}

/** The page's own policy forbids foreign scripts, so the checker comes by the debugger. */
export async function checkAccess(page: Page, where: string, rules?: string[]): Promise<void> {
  await page.evaluate(`window.axe ?? (() => { ${axe} })()`);
  const options = rules ? { runOnly: rules } : {};
  const violations = (await page.evaluate(
    `axe.run(${JSON.stringify(options)}).then(({ violations }) => violations)`,
  )) as Violation[];
  const words = violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ""}`).join("; ")}`,
  );
  assert.deepEqual(words, [], `accessibility of ${where}`);
}
