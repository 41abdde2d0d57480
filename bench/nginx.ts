// nginx with one worker, as an anchor: undefined where it is not installed.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folder, freePort, has, note, start, until } from "./host.ts";

export interface Nginx {
  readonly origin: string;
  readonly pid: number;
}

/** With these locations; `probe` is a path that answers. */
export async function startNginx(
  name: string,
  locations: string,
  probe: string,
): Promise<Nginx | undefined> {
  if (!(await has("nginx"))) {
    note("skipped: nginx, it is not installed");
    return undefined;
  }
  const port = await freePort();
  const home = join(folder, name);
  mkdirSync(home);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${home}/${kind};`)
    .join(" ");
  writeFileSync(
    join(home, "nginx.conf"),
    `user root; daemon off; worker_processes 1; pid ${home}/pid; error_log ${home}/error.log;
     events { worker_connections 1024; }
     http { access_log off; keepalive_requests 1000000000; ${temporary}
       server { listen 127.0.0.1:${port}; ${locations} } }`,
  );
  const child = start("nginx", ["-p", home, "-c", join(home, "nginx.conf")]);
  const origin = `http://127.0.0.1:${port}`;
  await until("nginx", async () => (await fetch(`${origin}${probe}`)).ok, 10_000);
  return { origin, pid: child.pid ?? 0 };
}
