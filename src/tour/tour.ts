// What `helmr up --seed` deploys and runs: one task for each way a run can go.
import { setTimeout as sleep } from "node:timers/promises";
import { image, queue, sandbox, streams, task } from "@helmr/sdk";

const box = sandbox("tour")
  .image(image("tour").from("node:24-bookworm-slim"))
  .resources({ cpu: 1, memory: "256Mi" });
const narrow = queue({ name: "tour-narrow", concurrencyLimit: 1 });
const questions = streams.input<{ text: string }>("questions");
const answers = streams.output<{ text: string }>("answers");

const named = {
  "~standard": {
    version: 1 as const,
    vendor: "tour",
    validate: (value: unknown) =>
      typeof (value as { name?: unknown } | null)?.name === "string"
        ? { value: value as { name: string } }
        : { issues: [{ message: "must be a string", path: ["name"] }] },
  },
};

export const greets = task({
  id: "tour-greets",
  sandbox: box,
  payload: named,
  run: async ({ name }, ctx) => {
    console.log(`Hello, ${name}! This is run ${ctx.run.id}.`);
    return { greeting: `Hello, ${name}!` };
  },
});

export const fails = task({
  id: "tour-fails",
  sandbox: box,
  run: async () => {
    console.error("about to give up");
    throw new Error("the tour's example of a failure");
  },
});

export const works = task({
  id: "tour-works",
  sandbox: box,
  queue: narrow,
  maxDuration: "24h",
  run: async () => {
    for (let minute = 0; ; minute++) {
      console.log(`at work for ${minute} min`);
      await sleep(60_000);
    }
  },
});

export const dawdles = task({
  id: "tour-dawdles",
  sandbox: box,
  maxDuration: "5s",
  run: () => sleep(3_600_000, "too late"),
});

export const devours = task({
  id: "tour-devours",
  sandbox: box,
  run: async () => {
    const eaten: Buffer[] = [];
    for (;;) {
      eaten.push(Buffer.alloc(8 * 1024 * 1024, eaten.length + 1));
      await sleep(1);
    }
  },
});

export const asks = task({
  id: "tour-asks",
  sandbox: box,
  run: async ({ timeout = "30d" }: { timeout?: `${number}d` | `${number}s` }, ctx) => {
    const { approved } = await ctx.wait.human<{ approved: boolean }>({
      displayText: "Shall the tour go on?",
      timeout,
    });
    return { approved };
  },
});

export const talks = task({
  id: "tour-talks",
  sandbox: box,
  run: async () => {
    await answers.append({ text: "Ask me something." });
    for (;;) {
      const { text } = await questions.once().unwrap();
      await answers.append({ text: `You said: ${text}` });
    }
  },
});
