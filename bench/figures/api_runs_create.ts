// Durable creation of runs that nobody executes, and SQLite doing the same writes by itself.
import { resolve } from "node:path";
import { run } from "../host.ts";
import { figure, median } from "../report.ts";
import { copyDatabase, createRun, request, type Stack, startServer, startUp } from "../stack.ts";

const rounds = 3;
const seconds = 3;
const connections = 16;

interface Load {
  per_second: number;
  p99_ms: number;
}

async function load(stack: Stack): Promise<Load> {
  const input = request(stack, "POST /api/runs HTTP/1.1", JSON.stringify({ task_id: "now" }));
  const args = ["load", stack.port, connections, seconds].map(String);
  return JSON.parse(await run(resolve(stack.build, "bench/client"), args, { input })) as Load;
}

async function commits(stack: Stack, database: string): Promise<Load> {
  const args = ["commits", database, String(seconds)];
  return JSON.parse(await run(resolve(stack.build, "bench/anchor"), args)) as Load;
}

/** The server's database with one queued run in it, whose rows the anchor repeats. */
async function database(stack: Stack): Promise<string> {
  await startServer(stack);
  await createRun(stack, "now");
  return copyDatabase(stack, "copy.db");
}

export async function apiRunsCreate(stack: Stack): Promise<void> {
  if (!stack.key) await startUp(stack);
  const copy = await database(stack);
  await startServer(stack);
  const ours: Load[] = [];
  const theirs: Load[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await load(stack));
    theirs.push(await commits(stack, copy));
  }
  const middle = (loads: Load[], pick: (load: Load) => number) => median(loads.map(pick));
  figure("api_runs_create", middle(ours, (load) => load.per_second), "requests/s", {
    name: "sqlite_commits",
    value: middle(theirs, (load) => load.per_second),
  });
  figure("api_runs_create_p99", middle(ours, (load) => load.p99_ms), "ms", {
    name: "sqlite_commit_p99",
    value: middle(theirs, (load) => load.p99_ms),
  });
}
