// One task for every way a run can end.
import { logger, task } from "@helmr/sdk";
import { small as sandbox } from "./_sandbox";

const never = (): Promise<never> => new Promise(() => setInterval(() => undefined, 1000));

function burn(): never {
  throw new Error("the disk is on fire");
}

export const throws = task({
  id: "throws",
  sandbox,
  run: async () => {
    console.log("about to burn");
    burn();
  },
});

export const exits = task({
  id: "exits",
  sandbox,
  run: async () => {
    console.log("leaving");
    process.exit(3);
  },
});

export const overstays = task({
  id: "overstays",
  sandbox,
  maxDuration: "5s",
  run: async () => {
    console.log("busy");
    for (;;);
  },
});

export const rejects = task({
  id: "rejects",
  sandbox,
  run: async () => {
    void Promise.reject(new Error("nobody listens"));
    await never();
  },
});

export const returnsBigInt = task({ id: "returns-bigint", sandbox, run: async () => 1n });

export const recovers = task({
  id: "recovers",
  sandbox,
  retry: { maxAttempts: 3, backoff: { minMs: 100, maxMs: 200, factor: 1, jitter: "none" } },
  run: async (ctx) => {
    if (ctx.run.attemptNumber < 2) throw new Error("not yet");
    return { attempt: ctx.run.attemptNumber };
  },
});

export const listens = task({
  id: "listens",
  sandbox,
  run: async (ctx) => {
    console.log("listening");
    await new Promise((resolve) => {
      const timer = setInterval(() => undefined, 1000);
      ctx.signal.addEventListener("abort", () => {
        clearInterval(timer);
        resolve(undefined);
      });
    });
    console.log(`heard: ${(ctx.signal.reason as Error).message}`);
  },
});

export const ignores = task({
  id: "ignores",
  sandbox,
  run: async () => {
    process.on("SIGTERM", () => undefined);
    console.log("deaf");
    await never();
  },
});

export const logs = task({
  id: "logs",
  sandbox,
  run: async (ctx) => {
    ctx.log.info("starting", 42, ["a"]);
    logger.warn("half way", { percent: 50 });
    ctx.log.error("odd");
    process.stdout.write("no newline at the end");
  },
});
