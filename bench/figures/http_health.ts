// The smallest answer, per second of CPU the server spends on it, against nginx with one worker.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cpuSeconds, folder, freePort, has, note, run, start, until } from "../host.ts";
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

async function startNginx(body: string): Promise<{ address: string; pid: number } | undefined> {
  if (!(await has("nginx"))) return undefined;
  const port = await freePort();
  const home = join(folder, "nginx");
  mkdirSync(home);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${home}/${kind};`)
    .join(" ");
  writeFileSync(
    join(home, "nginx.conf"),
    `daemon off; worker_processes 1; pid ${home}/pid; error_log ${home}/error.log;
     events { worker_connections 1024; }
     http { access_log off; keepalive_requests 1000000000; ${temporary}
       server { listen 127.0.0.1:${port};
         location /healthz { default_type application/json; return 200 '${body}'; } } }`,
  );
  const child = start("nginx", ["-p", home, "-c", join(home, "nginx.conf")]);
  const address = `http://127.0.0.1:${port}/healthz`;
  await until("nginx", async () => (await fetch(address)).ok, 10_000);
  return { address, pid: child.pid ?? 0 };
}

export async function httpHealth(stack: Stack): Promise<void> {
  if (!(await has("wrk"))) {
    note("skipped: http_health, wrk is not installed");
    return;
  }
  if (!stack.key) await startUp(stack);
  const pid = await startServer(stack);
  const address = `${url(stack)}/healthz`;
  const nginx = await startNginx(await (await fetch(address)).text());
  if (!nginx) note("skipped: nginx, it is not installed");
  const ours: Rate[] = [];
  const theirs: Rate[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await measure(address, pid));
    if (nginx) theirs.push(await measure(nginx.address, nginx.pid));
  }
  for (const [name, key] of [["http_health", "perCore"], ["http_health_wall", "wall"]] as const) {
    const value = median(ours.map((rate) => rate[key]));
    const anchor = nginx && { name: "nginx", value: median(theirs.map((rate) => rate[key])) };
    figure(name, value, key === "perCore" ? "requests/cpu-s" : "requests/s", anchor);
  }
}
