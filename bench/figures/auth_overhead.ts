// What it costs to be known: an authenticated request against the health route, which asks nobody.
import { cpuSeconds, has, note, run } from "../host.ts";
import { figure, quantile } from "../report.ts";
import { type Stack, startServer, startUp, url } from "../stack.ts";

const rounds = 7;
const goal = { name: "goal_60", value: 60 };

interface Cost {
  /** Half of the answers on one kept connection came within so many microseconds. */
  latency: number;
  /** CPU of the server's process per request, on 32 connections. */
  cpu: number;
}

const microseconds: Record<string, number> = { us: 1, ms: 1000, s: 1_000_000 };

async function load(address: string, key: string, args: string[]): Promise<string> {
  const text = await run("wrk", [...args, "-H", `Authorization: Bearer ${key}`, address]);
  if (/Non-2xx|Socket errors/.test(text)) throw new Error(text);
  return text;
}

async function measure(address: string, key: string, pid: number): Promise<Cost> {
  const alone = await load(address, key, ["-t1", "-c1", "-d1s", "--latency"]);
  const half = /50%\s+([\d.]+)(us|ms|s)/.exec(alone);
  if (!half) throw new Error(alone);
  const before = cpuSeconds(pid);
  const many = await load(address, key, ["-t1", "-c32", "-d1s"]);
  const spent = cpuSeconds(pid) - before;
  return {
    latency: Number(half[1]) * (microseconds[half[2] ?? ""] ?? Number.NaN),
    cpu: (spent * 1_000_000) / Number(/(\d+) requests in/.exec(many)?.[1]),
  };
}

export async function authOverhead(stack: Stack): Promise<void> {
  if (!(await has("wrk"))) {
    note("skipped: auth_overhead, wrk is not installed");
    return;
  }
  if (!stack.key) await startUp(stack);
  const pid = await startServer(stack);
  const health: Cost[] = [];
  const known: Cost[] = [];
  for (let i = 0; i < rounds; i++) {
    health.push(await measure(`${url(stack)}/healthz`, stack.key, pid));
    known.push(await measure(`${url(stack)}/api/me`, stack.key, pid));
  }
  for (const [name, key] of [["auth_overhead", "latency"], ["auth_overhead_cpu", "cpu"]] as const) {
    // The round that was disturbed least: two hand-overs between threads cost what others let them.
    const pick = (costs: Cost[]) => quantile(costs.map((cost) => cost[key]), 0);
    figure(name, pick(known) - pick(health), "us", goal);
  }
}
