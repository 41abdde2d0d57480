import { image, sandbox, task } from "@helmr/sdk";

const box = sandbox("bench").image(image("bench").from("node:24-bookworm-slim"));

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
