// Output of a task, from its write in the guest to the decoded event in a client's hand.
import { once } from "node:events";
import { resolve } from "node:path";
import { note, run } from "../host.ts";
import { figure } from "../report.ts";
import { runNode, type Runsc, runsc } from "../runsc.ts";
import { createRun, request, type Stack, startUp } from "../stack.ts";

const size = 200_000_000;
const program = `
const block = ("x".repeat(127) + "\\n").repeat(512);
(async () => {
  for (let left = ${size}; left > 0; left -= block.length)
    if (!process.stdout.write(left < block.length ? block.slice(0, left) : block))
      await new Promise((resolve) => process.stdout.once("drain", resolve));
})()`;

interface Transfer {
  bytes: number;
  seconds: number;
}

const rate = (transfer: Transfer) => transfer.bytes / transfer.seconds / 1e6;

async function ours(stack: Stack): Promise<number> {
  const made = await createRun(stack, "print");
  // HTTP/1.0, so that the stream comes without chunks and ends with the connection.
  const input = request(stack, `GET /api/runs/${made.id}/logs HTTP/1.0`);
  const args = ["follow", String(stack.port)];
  const answer = await run(resolve(stack.build, "bench/client"), args, { input });
  const transfer = JSON.parse(answer) as Transfer;
  if (transfer.bytes !== size) throw new Error(`${transfer.bytes} bytes of ${size} arrived`);
  return rate(transfer);
}

async function rawPipe(stack: Stack): Promise<number> {
  const answer = await run(resolve(stack.build, "bench/anchor"), ["pipe", String(size)]);
  return rate(JSON.parse(answer) as Transfer);
}

async function rawRunsc(raw: Runsc): Promise<number> {
  const child = runNode(raw, program).process;
  let bytes = 0;
  let first = 0;
  child.stdout?.on("data", (chunk: Buffer) => {
    first ||= performance.now();
    bytes += chunk.length;
  });
  if (!child.stdout) throw new Error("no stdout");
  await once(child.stdout, "end");
  const seconds = (performance.now() - first) / 1000;
  if (bytes !== size) throw new Error(`${bytes} bytes of ${size} arrived from runsc`);
  return rate({ bytes, seconds });
}

export async function logThroughput(stack: Stack): Promise<void> {
  await startUp(stack);
  const value = await ours(stack);
  figure("log_throughput", value, "MB/s", { name: "goal_40", value: 40 });
  figure("log_throughput", value, "MB/s", { name: "raw_pipe", value: await rawPipe(stack) });
  const raw = await runsc();
  const anchor = raw && { name: "runsc_pipe", value: await rawRunsc(raw) };
  if (anchor) figure("log_throughput", value, "MB/s", anchor);
  else note("skipped: runsc_pipe, runsc is not installed");
}
