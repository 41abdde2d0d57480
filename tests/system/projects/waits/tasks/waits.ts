// The kinds of waits and the ways they end.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { ConcurrentWaitError, task, timers, tokens } from "@helmr/sdk";
import { WaitCancelledError, WaitTimeoutError } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

export const naps = task({
  id: "naps",
  sandbox: small,
  run: async (event: { for?: string; until?: string }, ctx) => {
    const begun = Date.now();
    if (event.for !== undefined) await ctx.wait.for(event.for);
    else await ctx.wait.until(event.until as string);
    return { begun, ended: Date.now() };
  },
});

export const asks = task({
  id: "asks",
  sandbox: small,
  run: async (_ctx) => {
    const token = await tokens.create({ timeout: "1h", tags: ["asks"], metadata: { n: 1 } });
    const { id, callbackUrl, publicAccessToken } = token;
    console.log(`token ${JSON.stringify({ id, callbackUrl, publicAccessToken })}`);
    return { got: await tokens.wait<unknown>(token).unwrap() };
  },
});

export const expires = task({
  id: "expires",
  sandbox: small,
  run: async (event: { timeout: string; catches?: boolean }, ctx) => {
    try {
      return { answer: await ctx.wait.human({ displayText: "Quick?", timeout: event.timeout }) };
    } catch (error) {
      if (!event.catches) throw error;
      return {
        name: (error as Error).name,
        isTimeout: error instanceof WaitTimeoutError,
        isCancelled: error instanceof WaitCancelledError,
      };
    }
  },
});

export const lingers = task({
  id: "lingers",
  sandbox: small,
  run: async (event: { forMs: number }, _ctx) => {
    const token = await tokens.create({ timeout: "1h" });
    try {
      await tokens.wait(token, { idleTimeout: "1h" }).unwrap();
    } finally {
      console.log("tidying up");
      await new Promise((resolve) => setTimeout(resolve, event.forMs));
      console.log("tidied up");
    }
  },
});

export const twice = task({
  id: "twice",
  sandbox: small,
  run: async (_ctx) => {
    const first = timers.waitFor("2s").unwrap();
    const second = await timers.waitFor("1s").unwrap().catch((error: unknown) => error);
    await first;
    return { isConcurrent: second instanceof ConcurrentWaitError };
  },
});

const shortHash = (value: string | undefined): string =>
  createHash("sha256").update(value ?? "").digest("hex").slice(0, 16);

export const keeps = task({
  id: "keeps",
  sandbox: small,
  secrets: { SEALED: { env: "SEALED" }, FILED: { file: "/etc/filed" } },
  run: async (_event: unknown, ctx) => {
    const look = (): string[] => [
      shortHash(process.env.SEALED),
      shortHash(readFileSync("/etc/filed", "utf8")),
    ];
    const before = look();
    await ctx.wait.human({ displayText: "Changed?" });
    return { before, after: look() };
  },
});

/** Waits again and again; what it was told and what it keeps are in one hash that goes on. */
export const cycles = task({
  id: "cycles",
  sandbox: small,
  run: async (event: { times: number; bytes: number }, ctx) => {
    const kept = Buffer.alloc(event.bytes, "kept");
    let hash = "";
    for (let n = 0; n < event.times; n++) {
      const answer = await ctx.wait.human<string>({ metadata: { n, hash } });
      kept.write(answer, (n * 4096) % event.bytes);
      hash = createHash("sha256").update(hash).update(answer).update(kept).digest("hex");
      writeFileSync("hash.txt", hash);
    }
    return { hash, filed: readFileSync("hash.txt", "utf8") };
  },
});
