import { image, sandbox, streams, task } from "@helmr/sdk";

export const box = sandbox("bench").image(image("bench").from("node:24-bookworm-slim"));

export const now = task({
  id: "now",
  sandbox: box,
  run: () => ({ at: Date.now() }),
});

const block = `${"x".repeat(127)}\n`.repeat(512);

export const print = task({
  id: "print",
  sandbox: box,
  maxDuration: "5m",
  run: async () => {
    for (let left = 200_000_000; left > 0; left -= block.length) {
      const fits = process.stdout.write(left < block.length ? block.slice(0, left) : block);
      if (!fits) await new Promise((resolve) => process.stdout.once("drain", resolve));
    }
  },
});

type Place = { env: string } | { file: string } | { dir: string };

/** Ten variables, eight files and two directories. */
const places = Array.from({ length: 20 }, (_, i): [string, Place] => {
  if (i < 10) return [`BENCH_${i}`, { env: `BENCH_${i}` }];
  return [`BENCH_${i}`, i < 18 ? { file: `/run/secrets/${i}` } : { dir: `/run/creds-${i}` }];
});

export const nowWithSecrets = task({
  id: "now-with-secrets",
  sandbox: box,
  secrets: Object.fromEntries(places),
  run: () => ({ at: Date.now() }),
});

export const wait = task({
  id: "wait",
  sandbox: box,
  run: async (ctx) => {
    // By then the sandbox that stands by for the next run is made: it is not what is measured.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await ctx.wait.human({ displayText: "Go on?" });
    return { at: Date.now() };
  },
});

const ears = streams.input<number>("ears");
streams.output("mouth");

export const hear = task({
  id: "hear",
  sandbox: box,
  run: async (event: { rounds: number }, _ctx) => {
    const at: number[] = [];
    for (let i = 0; i < event.rounds; i++) {
      await ears.once().unwrap();
      at.push(performance.timeOrigin + performance.now());
    }
    return { at };
  },
});

export const lines = task({
  id: "lines",
  sandbox: box,
  run: async (event: { perSecond: number; seconds: number }, _ctx) => {
    const began = Date.now();
    for (let printed = 0; printed < event.perSecond * event.seconds; ) {
      const due = Math.min(event.perSecond * event.seconds, ((Date.now() - began) / 1000) * event.perSecond);
      let text = "";
      for (; printed < due; printed++) text += `line ${printed} \u001b[3${printed % 8}mof a log that grows\u001b[0m\n`;
      process.stdout.write(text);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
});
