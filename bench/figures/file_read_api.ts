// A file of a workspace's version as a client reads it, against nginx sending the same file.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { folder, has, note, run } from "../host.ts";
import { startNginx } from "../nginx.ts";
import { figure, median } from "../report.ts";
import { type Stack, startServer, startUp, url } from "../stack.ts";

const rounds = 7;
/** Of a real program: some of it compresses well, some does not. */
const bytes = 60_000_000;

async function measure(address: string, headers: string[]): Promise<number> {
  const flags = headers.flatMap((header) => ["-H", header]);
  const told = ["-w", "%{size_download} %{time_total}", "-o", "/dev/null"];
  const text = await run("curl", ["-sS", "-f", ...told, ...flags, address]);
  const [size, seconds] = text.split(" ").map(Number);
  if (size !== bytes || !seconds) throw new Error(`${address}: ${text}`);
  return size / 1e6 / seconds;
}

async function call(
  stack: Stack,
  method: string,
  path: string,
  body: Uint8Array<ArrayBuffer> | string,
): Promise<any> {
  const answer = await fetch(`${url(stack)}/api${path}`, {
    method,
    headers: { authorization: `Bearer ${stack.key}` },
    body,
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
  return answer.json();
}

export async function fileReadApi(stack: Stack): Promise<void> {
  if (!(await has("curl"))) {
    note("skipped: file_read_api, curl is not installed");
    return;
  }
  if (!stack.key) await startUp(stack);
  await startServer(stack);
  const listed = await fetch(`${url(stack)}/api/sandboxes`, {
    headers: { authorization: `Bearer ${stack.key}` },
  });
  const { sandboxes } = (await listed.json()) as { sandboxes: { sandbox_id: string }[] };
  const wanted = JSON.stringify({ sandbox_id: sandboxes[0]?.sandbox_id });
  const { workspace } = await call(stack, "POST", "/workspaces", wanted);
  const content = `/workspaces/${workspace.id}/files/content?path=file`;
  const file = readFileSync(process.execPath).subarray(0, bytes);
  await call(stack, "PUT", content, new Uint8Array(file));
  const home = join(folder, "files");
  mkdirSync(home);
  writeFileSync(join(home, "file"), file);
  const location = `location / { root ${home}; sendfile on; tcp_nopush on; }`;
  const nginx = await startNginx("nginx-files", location, "/file");
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push(await measure(`${url(stack)}/api${content}`, [`authorization: Bearer ${stack.key}`]));
    if (nginx) theirs.push(await measure(`${nginx.origin}/file`, []));
  }
  const anchor = nginx && { name: "nginx_sendfile", value: median(theirs) };
  figure("file_read_api", median(ours), "MB/s", anchor);
}
