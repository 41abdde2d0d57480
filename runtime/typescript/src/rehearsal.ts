// A run of a task of our own, from its module's import to its outcome, before anybody's. What Node
// loads and compiles at the first of everything is then part of the process, and of its copies.
import { Console } from "node:console";
import { closeSync, openSync } from "node:fs";
import { Channel } from "./channel.ts";
import { resolveAnew, resolveIn } from "./hooks.ts";
import { openOutput } from "./output.ts";
import { home, taskRoot, useTaskRoot } from "./places.ts";
import { attempt } from "./run.ts";
import { shared } from "./sdk.ts";
import type { RunRuntime } from "./sdk.ts";

const start = {
  mode: "run",
  runId: "rehearsal",
  attempt: 1,
  module: "task.ts",
  export: "rehearsal",
  workspacePath: "/",
} as const;

let times = 0;

/* Nothing of it may be left: the next task is the first one. */
function strikeTheSet(root: string): void {
  for (const event of ["uncaughtException", "beforeExit"]) process.removeAllListeners(event);
  shared<RunRuntime>("runRuntime").value = undefined;
  useTaskRoot(root);
  resolveIn([]);
  resolveAnew("");
}

/** Settles when it is over, with the code it would have exited with. */
export async function rehearse(): Promise<number> {
  const root = taskRoot();
  const nowhere = openSync("/dev/null", "w");
  try {
    useTaskRoot(`${home}/adapter/rehearsal`);
    resolveAnew(`?${++times}`);
    new Console(openOutput(nowhere)).log("rehearsal %d", 1, { of: "a line" });
    return await new Promise((resolve) =>
      attempt(new Channel(nowhere), start, Buffer.from('{"name":"nobody"}'), resolve),
    );
  } finally {
    strikeTheSet(root);
    closeSync(nowhere);
  }
}
