// The smallest answer, per second of CPU the server spends on it, against nginx with one worker.
import { cpuSeconds, has, note, run } from "../host.ts";
import { startNginx } from "../nginx.ts";
import { figure, median } from "../report.ts";
import { type Stack, startServer, startUp, url } from "../stack.ts";

const rounds = 3;

interface Rate {
  perCore: number;
  wall: number;
}

async function measure(address: string, pid: number): Promise<Rate> {
  const before = cpuSeconds(pid);
  const text = await run("wrk", ["-t1", "-c32", "-d3s", address]);
  const spent = cpuSeconds(pid) - before;
  const requests = Number(/(\d+) requests in/.exec(text)?.[1]);
  const wall = Number(/Requests\/sec:\s+([\d.]+)/.exec(text)?.[1]);
  if (/Non-2xx|Socket errors/.test(text)) throw new Error(text);
  return { perCore: requests / spent, wall };
}

export async function httpHealth(stack: Stack): Promise<void> {
  if (!(await has("wrk"))) {
    note("skipped: http_health, wrk is not installed");
    return;
  }
  if (!stack.key) await startUp(stack);
  const pid = await startServer(stack);
  const address = `${url(stack)}/healthz`;
  const body = await (await fetch(address)).text();
  const location = `location /healthz { default_type application/json; return 200 '${body}'; }`;
  const nginx = await startNginx("nginx", location, "/healthz");
  const ours: Rate[] = [];
  const theirs: Rate[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await measure(address, pid));
    if (nginx) theirs.push(await measure(`${nginx.origin}/healthz`, nginx.pid));
  }
  for (const [name, key] of [["http_health", "perCore"], ["http_health_wall", "wall"]] as const) {
    const value = median(ours.map((rate) => rate[key]));
    const anchor = nginx && { name: "nginx", value: median(theirs.map((rate) => rate[key])) };
    figure(name, value, key === "perCore" ? "requests/cpu-s" : "requests/s", anchor);
  }
}
