// The console in a browser on this machine: what its first page weighs, when it can be used, and how smooth a log is that grows.
import { chromium, type Browser, type Page } from "playwright-core";
import { browser as executablePath } from "../../sdk/typescript/test/browser.ts";
import { note } from "../host.ts";
import { figure, median } from "../report.ts";
import { createRun, type Stack, startUp, url } from "../stack.ts";

const loads = 9;
const pageLoads = 3;
const followMs = 5000;

async function signedIn(browser: Browser, stack: Stack): Promise<Page> {
  const page = await (
    await browser.newContext({ viewport: { width: 1360, height: 900 } })
  ).newPage();
  await page.goto(`${url(stack)}/dev/login`);
  await page.getByRole("button").first().click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  return page;
}

/** Scripts of the overview as they come over the wire, and the part of them that React is. */
async function weight(page: Page, stack: Stack): Promise<{ all: number; react: number }> {
  const sizes = new Map<string, number>();
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  const urls = new Map<string, string>();
  cdp.on("Network.responseReceived", ({ requestId, response }) =>
    urls.set(requestId, response.url),
  );
  cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    const at = urls.get(requestId) ?? "";
    if (at.endsWith(".js")) sizes.set(at, encodedDataLength);
  });
  await page.goto(url(stack));
  await page.getByText("Newest runs").waitFor();
  await page.waitForLoadState("load");
  const total = (names: [string, number][]): number =>
    names.reduce((sum, [, size]) => sum + size, 0) / 1024;
  const entries = [...sizes];
  return { all: total(entries), react: total(entries.filter(([name]) => /\/react-/.test(name))) };
}

/** Until the overview shows its runs and takes a key; and a page of the server's own with no script, shown. */
async function untilUsable(
  browser: Browser,
  stack: Stack,
): Promise<{ console: number; plain: number; paint: number }> {
  const consoles: number[] = [];
  const plains: number[] = [];
  const paints: number[] = [];
  for (let i = 0; i < loads; i++) {
    const page = await signedIn(browser, stack);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
    let before = performance.now();
    await page.goto(`${url(stack)}/auth/device`, { waitUntil: "load" });
    plains.push(performance.now() - before);
    before = performance.now();
    await page.goto(url(stack), { waitUntil: "commit" });
    await page.getByText("Newest runs").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Where to" }).waitFor();
    consoles.push(performance.now() - before);
    paints.push(
      (await page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0",
      )) as number,
    );
    await page.context().close();
  }
  return { console: median(consoles), plain: median(plains), paint: median(paints) };
}

/** Until the heading of a page is there, asked for by its address and without a cache. */
async function untilShown(browser: Browser, stack: Stack, run: string): Promise<void> {
  const paths: Record<string, string> = {
    run: `/runs/${run}`,
    ...Object.fromEntries(
      ["runs", "approvals", "sessions", "workspaces", "tasks", "deployments", "schedules"].map((name) => [
        name,
        `/${name}`,
      ]),
    ),
    settings: "/settings/workers",
  };
  const page = await signedIn(browser, stack);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
  for (const [name, path] of Object.entries(paths)) {
    const times: number[] = [];
    for (let i = 0; i < pageLoads; i++) {
      const before = performance.now();
      await page.goto(url(stack) + path, { waitUntil: "commit" });
      await page.locator("main h1").waitFor();
      times.push(performance.now() - before);
    }
    figure(`console_page_${name}`, median(times), "ms", { name: "goal_600", value: 600 });
  }
  await page.context().close();
}

/** Frames per second the page draws. */
async function frames(page: Page, ms: number): Promise<number> {
  const count = (await page.evaluate(`new Promise((resolve) => {
    let n = 0;
    const end = performance.now() + ${ms};
    const draw = () => { n++; if (performance.now() < end) requestAnimationFrame(draw); else resolve(n); };
    requestAnimationFrame(draw);
  })`)) as number;
  return (count / ms) * 1000;
}

async function following(browser: Browser, stack: Stack): Promise<{ busy: number; idle: number }> {
  const page = await signedIn(browser, stack);
  const idle = await frames(page, 2000);
  const { id } = await createRun(stack, "lines", { perSecond: 5000, seconds: 3 + followMs / 1000 });
  await page.goto(`${url(stack)}/runs/${id}`);
  await page.getByLabel("Output").waitFor();
  await page
    .getByText("2,000 lines")
    .or(page.getByText(/\b[2-9],\d{3} lines|\d{2},\d{3} lines/))
    .waitFor();
  const busy = await frames(page, followMs);
  await page.context().close();
  return { busy, idle };
}

export async function consoleFigures(stack: Stack): Promise<void> {
  if (!executablePath) {
    note("skipped: console, no chromium is installed");
    return;
  }
  await startUp(stack);
  const { id } = await createRun(stack, "now");
  const args = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
  ];
  const browser = await chromium.launch({ executablePath, args });
  try {
    const { all, react } = await weight(await signedIn(browser, stack), stack);
    figure("console_js_kb", all, "KB", { name: "goal_150", value: 150 });
    figure("console_js_kb", all, "KB", { name: "react_alone", value: react });
    const usable = await untilUsable(browser, stack);
    figure("console_tti", usable.console, "ms", { name: "goal_600", value: 600 });
    figure("console_tti", usable.console, "ms", {
      name: "page_without_script",
      value: usable.plain,
    });
    figure("console_fcp", usable.paint, "ms", { name: "goal_600", value: 600 });
    await untilShown(browser, stack, id);
    const { busy, idle } = await following(browser, stack);
    figure("log_lines_fps", busy, "fps", { name: "goal_50", value: 50 });
    figure("log_lines_fps", busy, "fps", { name: "page_at_rest", value: idle });
  } finally {
    await browser.close();
  }
}
