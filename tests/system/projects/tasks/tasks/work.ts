import { task } from "@helmr/sdk";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { small as sandbox } from "./_sandbox";

const lineBytes = 128;
const blockLines = 512;

/* Numbered lines of equal length, and the digest of all of them. */
export const floods = task({
  id: "floods",
  sandbox,
  run: async ({ bytes }: { bytes: number }, _ctx) => {
    const hash = createHash("sha256");
    const total = Math.floor(bytes / lineBytes);
    for (let line = 0; line < total;) {
      let block = "";
      for (const end = Math.min(line + blockLines, total); line < end; line++)
        block += `${line} `.padEnd(lineBytes - 1, "x") + "\n";
      hash.update(block);
      if (!process.stdout.write(block)) await once(process.stdout, "drain");
    }
    return { lines: total, sha256: hash.digest("hex") };
  },
});

export const naps = task({
  id: "naps",
  sandbox,
  run: async ({ ms = 0 }: { ms?: number }, ctx) => {
    console.log(`begin ${ctx.run.runLeaseId}`);
    await new Promise((resolve) => setTimeout(resolve, ms));
    console.log(`end ${ctx.run.runLeaseId}`);
    return { lease: ctx.run.runLeaseId };
  },
});

export const ticks = task({
  id: "ticks",
  sandbox,
  run: async ({ lines, ms }: { lines: number; ms: number }, ctx) => {
    for (let line = 0; line < lines; line++) {
      ctx.log.info(`tick ${line}`);
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  },
});
