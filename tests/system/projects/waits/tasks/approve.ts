// Waits for a person with everything a program can hold open, and tells what is left of it.
import { spawn } from "node:child_process";
import { closeSync, openSync, readSync, unlinkSync, writeFileSync, writeSync } from "node:fs";
import { text } from "node:stream/consumers";
import { task } from "@helmr/sdk";
import { small } from "./_sandbox.ts";

export const approve = task({
  id: "approve",
  sandbox: small,
  run: async (event: { name: string; afterMs?: number }, ctx) => {
    let count = 0;
    const next = (): number => ++count;
    next();
    const fd = openSync("scratch", "w+");
    writeSync(fd, `${event.name} before`);
    unlinkSync("scratch");
    const child = spawn("sh", ["-c", "read line; echo heard $line"]);
    const timer = new Promise((resolve) => setTimeout(resolve, 2000, "rang"));
    writeFileSync("before.txt", event.name);
    console.log("about to wait");

    const answer = await ctx.wait.human<{ approved: boolean } | null>({ displayText: "Go on?" });
    const now = Date.now();
    console.log("answered");
    if (event.afterMs !== undefined)
      await new Promise((resolve) => setTimeout(resolve, event.afterMs));

    writeSync(fd, " and after");
    const content = Buffer.alloc(100);
    const length = readSync(fd, content, 0, content.length, 0);
    closeSync(fd);
    child.stdin.end(`${event.name}\n`);
    if (answer?.approved) writeFileSync("approved.txt", `${event.name}\n`);
    return {
      answer,
      now,
      count: next(),
      content: content.toString("utf8", 0, length),
      heard: await text(child.stdout),
      timer: await timer,
      runId: ctx.run.id,
      attempt: ctx.run.attemptNumber,
      resumes: ctx.run.snapshotVersion,
    };
  },
});
