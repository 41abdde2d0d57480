// Memory of the server's process for each client that follows a run in which nothing happens.
import { once } from "node:events";
import { resolve } from "node:path";
import { note, residentBytes, sleep, start, stop } from "../host.ts";
import { figure } from "../report.ts";
import { createRun, request, type Stack, startServer, startUp } from "../stack.ts";

const clients = 10_000;

/** Opens streams and gives the size of the server with all of them open. */
async function withClients(stack: Stack, pid: number, run: string, count: number): Promise<number> {
  const args = ["idle", stack.port, count].map(String);
  const child = start(resolve(stack.build, "bench/client"), args, {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin?.end(request(stack, `GET /api/runs/${run}/events HTTP/1.1`));
  if (!child.stdout) throw new Error("no stdout");
  const said = await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  if (!Buffer.isBuffer(said[0])) throw new Error("the clients did not get their streams");
  await sleep(500);
  const size = residentBytes(pid);
  await stop(child);
  return size;
}

export async function sseClientBytes(stack: Stack): Promise<void> {
  if (!stack.key) await startUp(stack);
  // A new process: one that was busy before has memory to spare that would hide the cost.
  const pid = await startServer(stack);
  const run = await createRun(stack, "now");
  const few = await withClients(stack, pid, run.id, 100);
  await sleep(500);
  const many = await withClients(stack, pid, run.id, 100 + clients);
  note(`sse_client_bytes: ${few} bytes with 100 clients, ${many} with ${100 + clients}`);
  const value = (many - few) / clients;
  figure("sse_client_bytes", value, "bytes", { name: "goal_4096", value: 4096 });
}
