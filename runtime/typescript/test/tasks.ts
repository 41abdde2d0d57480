// Task modules for tests, all in the file and under the name that Guest starts unless told
// otherwise.

const head = `
import { image, logger, sandbox, streams, task, timers, tokens } from "@helmr/sdk";
const sbx = sandbox("s").image(image("i").from("node:24-bookworm-slim"));
`;

/** A module whose task's `run` is this source, after two lines of its own. */
export function taskWith(run: string, more = ""): Record<string, string> {
  const config = `{ id: "subject", sandbox: sbx, ${more} run: ${run} }`;
  return { "tasks/task.ts": `${head.trim()}\nexport const subject = task(${config});\n` };
}

export const taskHead = head;
