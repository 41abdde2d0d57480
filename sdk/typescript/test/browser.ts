// A real browser that loads a page of ours from an origin of its own, and what the page reports.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const bundle = join(import.meta.dirname, "../dist/index.js");

function find(): string | undefined {
  for (const name of ["chromium-headless-shell", "chromium"])
    try {
      return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    } catch {
      /* The next one may be there. */
    }
  return undefined;
}

export const browser = find();

/** Why there is none; false when there is one. */
export const browserMissing = browser === undefined && "no chromium is installed";

/** What the page's module, given the settings, resolves with; it finds the package at /sdk.js. */
export async function inBrowser(module: string, settings: object): Promise<any> {
  const page = `<!doctype html><script type="module">
    import * as sdk from "/sdk.js";
    const tell = (told) => fetch("/told", { method: "POST", body: JSON.stringify(told) });
    try {
      const { default: main } = await import("/main.js");
      await tell({ value: await main(sdk, ${JSON.stringify(settings)}) });
    } catch (error) {
      await tell({ error: String(error?.stack ?? error) });
    }
  </script>`;
  const files: Record<string, [string, string]> = {
    "/": ["text/html", page],
    "/sdk.js": ["text/javascript", readFileSync(bundle, "utf8")],
    "/main.js": ["text/javascript", module],
  };
  const profile = mkdtempSync(join(tmpdir(), "helmr-browser-"));
  const { promise, resolve, reject } = settled<string>();
  const server = createServer(async (request, response) => {
    const [type, text] = files[request.url ?? ""] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": type }).end(text);
    if (request.url !== "/told") return;
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    resolve(Buffer.concat(parts).toString());
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  /* Its own sandbox asks for rights that a container may not have; the page is ours. */
  const flags = ["--no-sandbox", "--disable-gpu", "--headless", "--remote-debugging-port=0"];
  const child = spawn(browser as string, [...flags, `--user-data-dir=${profile}`, address], {
    stdio: ["ignore", "ignore", "ignore"],
    detached: true, // what Debian starts is a script: the browser is below it, in the same group
  });
  const ended = new Promise((gone) => child.once("exit", gone));
  child.once("exit", (code) => reject(new Error(`the browser ended with ${code}`)));
  try {
    const told = JSON.parse(await promise) as { value?: unknown; error?: string };
    if (told.error !== undefined) throw new Error(`in the browser: ${told.error}`);
    return told.value;
  } finally {
    process.kill(-(child.pid as number), "SIGKILL");
    await ended;
    server.closeAllConnections();
    server.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

function settled<T>() {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
}
