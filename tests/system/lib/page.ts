// A page of the server in a real browser, as somebody with a phone has it: opened, looked at, and
// tapped, through the browser's own protocol.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { browser } from "../../../sdk/typescript/test/browser.ts";
import { until } from "./own.ts";

const flags = ["--no-sandbox", "--disable-gpu", "--headless", "--remote-debugging-port=0"];

export interface Page {
  /** What an expression in the page comes to. */
  value(expression: string): Promise<any>;
  /** Taps what the selector names. */
  tap(selector: string): Promise<void>;
  open(url: string): Promise<void>;
  /** What the page complained about: errors of scripts, and what its policy refused. */
  complaints(): readonly string[];
}

type Send = (method: string, params?: object) => Promise<any>;

async function connect(profile: string): Promise<{ send: Send; heard: string[]; end(): void }> {
  const file = join(profile, "DevToolsActivePort");
  await until("the browser listens", () => existsSync(file) && readFileSync(file, "utf8").includes("\n"));
  const [port] = readFileSync(file, "utf8").split("\n");
  const response = await fetch(`http://127.0.0.1:${port}/json/list`);
  const pages = (await response.json()) as { type: string; webSocketDebuggerUrl: string }[];
  const address = pages.find((each) => each.type === "page")?.webSocketDebuggerUrl ?? "";
  const socket = new WebSocket(address);
  const waiting = new Map<number, (answer: any) => void>();
  const heard: string[] = [];
  let last = 0;
  await new Promise((opened) => socket.addEventListener("open", opened, { once: true }));
  socket.addEventListener("message", ({ data }) => {
    const told = JSON.parse(data);
    waiting.get(told.id)?.(told);
    if (told.method === "Runtime.exceptionThrown" || told.method === "Log.entryAdded")
      heard.push(JSON.stringify(told.params));
  });
  const send: Send = async (method, params = {}) => {
    const id = ++last;
    const { error, result } = await new Promise<any>((answered) => {
      waiting.set(id, answered);
      socket.send(JSON.stringify({ id, method, params }));
    });
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  return { send, heard, end: () => socket.close() };
}

/** A phone's page for as long as the work takes. */
export async function onPhone<T>(work: (page: Page) => Promise<T>): Promise<T> {
  const profile = mkdtempSync(join(tmpdir(), "helmr-phone-"));
  const child = spawn(browser as string, [...flags, `--user-data-dir=${profile}`, "about:blank"], {
    stdio: "ignore",
    detached: true, // what Debian starts is a script: the browser is below it, in the same group
  });
  const ended = new Promise((gone) => child.once("exit", gone));
  try {
    const { send, heard, end } = await connect(profile);
    for (const domain of ["Page", "Runtime", "Log"]) await send(`${domain}.enable`);
    const phone = { width: 360, height: 640, deviceScaleFactor: 2, mobile: true };
    await send("Emulation.setDeviceMetricsOverride", phone);
    const value = async (expression: string) => {
      const options = { expression, awaitPromise: true, returnByValue: true };
      const { result, exceptionDetails } = await send("Runtime.evaluate", options);
      if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
      return result.value;
    };
    const done = await work({
      value,
      tap: (selector) => value(`document.querySelector(${JSON.stringify(selector)}).click()`),
      // An address that differs behind the # only would be no new page.
      open: async (url) => {
        await send("Page.navigate", { url: "about:blank" });
        await send("Page.navigate", { url });
        await until("the page is there", () => value("document.readyState === 'complete'"));
      },
      complaints: () => heard,
    });
    end();
    return done;
  } finally {
    process.kill(-(child.pid as number), "SIGKILL");
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
