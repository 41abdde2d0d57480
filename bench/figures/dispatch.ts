// Runs given to a worker per second, by how many wait behind them.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { note, run } from "../host.ts";
import { figure } from "../report.ts";
import type { Stack } from "../stack.ts";

const rounds = 100;

export async function dispatch(stack: Stack): Promise<void> {
  const program = resolve(stack.build, "dispatch_speed");
  if (!existsSync(program)) {
    note("skipped: dispatch, the program dispatch_speed is missing");
    return;
  }
  const { few, many, lanes } = JSON.parse(await run(program, [String(rounds)])) as Record<
    "few" | "many" | "lanes",
    number
  >;
  const anchor = { name: "dispatch_200", value: few };
  figure("dispatch", many, "runs/s", anchor);
  figure("dispatch_lanes", lanes, "runs/s", anchor);
}
