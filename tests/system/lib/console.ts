// The console in a real browser: signed in by its one click, with every fault of a page noted.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import type { Scope } from "./scope.ts";

function find(): string | undefined {
  for (const name of ["chromium-headless-shell", "chromium"])
    try {
      return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    } catch {
      /* The next one may be there. */
    }
  return undefined;
}

const executablePath = find();
/** Why there is no browser; false when there is one. */
export const browserMissing = executablePath === undefined && "no chromium is installed";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const pictures = `${process.env.B ?? "build"}/screenshots`;

export const desk: BrowserContextOptions = { viewport: { width: 1360, height: 900 } };
export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  hasTouch: true,
  isMobile: true,
};

export async function openBrowser(t: Scope): Promise<Browser> {
  const browser = await chromium.launch({
    ...(executablePath !== undefined && { executablePath }),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"],
  });
  t.after(() => browser.close());
  return browser;
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
  const faults: string[] = [];
  const strays: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  page.on("request", (request) => {
    const at = request.url();
    if (!at.startsWith(url) && !at.startsWith("data:") && !at.startsWith("blob:")) strays.push(at);
  });
  await page.goto(`${url}/dev/login`);
  await page.getByRole("button", { name: /sign in as the local owner/i }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  return { page, faults, strays };
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
export async function checkAccess(page: Page, where: string): Promise<void> {
  await page.evaluate(axe);
  const violations = (await page.evaluate(
    "axe.run().then(({ violations }) => violations)",
  )) as Violation[];
  const words = violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary ?? ""}`).join("; ")}`,
  );
  assert.deepEqual(words, [], `accessibility of ${where}`);
}
