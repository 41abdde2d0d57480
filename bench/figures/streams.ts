// Records of streams: stored, handed to a program that listens, and to many who follow.
import { connect, type Socket } from "node:net";
import { resolve } from "node:path";
import { note, run, sleep, until } from "../host.ts";
import { figure, median, quantile } from "../report.ts";
import {
  copyDatabase,
  createRun,
  getRun,
  request,
  type Run,
  type Stack,
  startServer,
  startUp,
  url,
} from "../stack.ts";

const rounds = 3;
const seconds = 3;
const connections = 16;
const subscribers = 1000;
const fanoutRecords = 100;
const heardRecords = 30;

interface Load {
  per_second: number;
  p99_ms: number;
}

const record = JSON.stringify({ data: { text: "x".repeat(200) } });

async function post(stack: Stack, path: string, body = record): Promise<void> {
  const answer = await fetch(`${url(stack)}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.key}` },
    body,
  });
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

async function load(stack: Stack, session: string): Promise<Load> {
  const input = request(stack, `POST /api/sessions/${session}/inputs/ears HTTP/1.1`, record);
  const args = ["load", stack.port, connections, seconds].map(String);
  return JSON.parse(await run(resolve(stack.build, "bench/client"), args, { input })) as Load;
}

async function commits(stack: Stack, database: string): Promise<Load> {
  const args = ["records", database, String(seconds)];
  return JSON.parse(await run(resolve(stack.build, "bench/anchor"), args)) as Load;
}

/** The server's database with one record in it, which the anchor repeats. */
async function database(stack: Stack): Promise<string> {
  await startServer(stack);
  const { session_id } = await createRun(stack, "hear", { rounds: 1 });
  await post(stack, `/api/sessions/${session_id}/inputs/ears`);
  return copyDatabase(stack, "records.db");
}

export async function streamAppend(stack: Stack): Promise<void> {
  if (!stack.key) await startUp(stack);
  const copy = await database(stack);
  await startServer(stack);
  const ours: Load[] = [];
  const theirs: Load[] = [];
  for (let i = 0; i < rounds; i++) {
    const { session_id } = await createRun(stack, "hear", { rounds: 1 });
    ours.push(await load(stack, session_id));
    theirs.push(await commits(stack, copy));
  }
  const middle = (loads: Load[], pick: (load: Load) => number) => median(loads.map(pick));
  figure("stream_append", middle(ours, (one) => one.per_second), "records/s", {
    name: "sqlite_record_commits",
    value: middle(theirs, (one) => one.per_second),
  });
  figure("stream_append_p99", middle(ours, (one) => one.p99_ms), "ms", {
    name: "sqlite_record_commit_p99",
    value: middle(theirs, (one) => one.p99_ms),
  });
}

/** A client of a live stream that counts its records. */
function subscribe(stack: Stack, session: string, counted: (n: number) => void): Socket {
  const socket = connect(stack.port, "127.0.0.1");
  const mark = Buffer.from("event: stream_record\n");
  let rest = Buffer.alloc(0);
  socket.write(request(stack, `GET /api/sessions/${session}/outputs/mouth HTTP/1.1`));
  socket.on("data", (bytes) => {
    const all = Buffer.concat([rest, bytes]);
    let n = 0;
    let end = 0;
    for (let at = all.indexOf(mark); at >= 0; at = all.indexOf(mark, end)) {
      end = at + mark.length;
      n++;
    }
    rest = Buffer.from(all.subarray(Math.max(end, all.length - mark.length)));
    if (n > 0) counted(n);
  });
  return socket;
}

export async function sseFanout(stack: Stack): Promise<void> {
  if (!stack.key) await startUp(stack);
  await startServer(stack);
  const { session_id } = await createRun(stack, "hear", { rounds: 1 });
  const path = `/api/sessions/${session_id}/outputs/mouth`;
  let heard = 0;
  const sockets = Array.from({ length: subscribers }, () =>
    subscribe(stack, session_id, (n) => (heard += n)),
  );
  try {
    await post(stack, path);
    await until("every subscriber", () => heard === subscribers);
    const begun = performance.now();
    for (let i = 0; i < fanoutRecords; i++) await post(stack, path);
    await until("every record", () => heard === subscribers * (fanoutRecords + 1), 120_000);
    const taken = (performance.now() - begun) / 1000;
    figure("sse_fanout", (subscribers * fanoutRecords) / taken, "records/s");
  } finally {
    sockets.forEach((socket) => socket.destroy());
  }
}

async function listens(stack: Stack, id: string, after: string): Promise<string> {
  for (;;) {
    const found = (await getRun(stack, id)) as Run & { pending_wait?: { id: string } };
    if (found.error) throw new Error(JSON.stringify(found.error));
    if (found.pending_wait && found.pending_wait.id !== after) return found.pending_wait.id;
    await sleep(2);
  }
}

export async function appendToWaiter(stack: Stack): Promise<void> {
  await startUp(stack);
  const { id, session_id } = await createRun(stack, "hear", { rounds: heardRecords });
  const accepted: number[] = [];
  let wait = "";
  for (let i = 0; i < heardRecords; i++) {
    wait = await listens(stack, id, wait);
    await sleep(20);
    await post(stack, `/api/sessions/${session_id}/inputs/ears`, '{"data":1}');
    accepted.push(performance.timeOrigin + performance.now());
  }
  await until("the end of the run", async () => (await getRun(stack, id)).status === "succeeded");
  const { at } = (await getRun(stack, id)).output as { at: number[] };
  const taken = at.map((time, i) => Math.max(time - (accepted[i] ?? 0), 0));
  note(`append_to_waiter: ${taken.map((ms) => ms.toFixed(1)).join(" ")}`);
  figure("append_to_waiter_p50", median(taken), "ms", { name: "goal_10", value: 10 });
  figure("append_to_waiter_p99", quantile(taken, 0.99), "ms", { name: "goal_10", value: 10 });
}
