// Memory of a Node process into the sealed store and back, against zstd and AES-256-GCM alone.
import { existsSync } from "node:fs";
import { once } from "node:events";
import { resolve } from "node:path";
import { note, run, start, stop } from "../host.ts";
import { figure } from "../report.ts";
import type { Stack } from "../stack.ts";

// What a task has loaded when it waits: the usual modules and some state.
const program = `
  const modules = ["http", "https", "crypto", "fs", "zlib", "stream", "url", "util", "worker_threads"];
  globalThis.kept = [modules.map((name) => require(name)),
    Array.from({ length: 20000 }, (_, i) => ({ id: i, name: "entry " + i, at: new Date(i * 1000) }))];
  console.log("ready");
  setInterval(() => {}, 1000);
`;

interface Answer {
  bytes: number;
  seal: number;
  save: number;
  load: number;
  anchor: number;
  anchor_back: number;
  sealed: number;
  stored: number;
  anchor_stored: number;
}

export async function seal(stack: Stack): Promise<void> {
  const speed = resolve(stack.build, "seal_speed");
  if (!existsSync(speed)) {
    note("skipped: seal, the program seal_speed is missing");
    return;
  }
  const node = start(process.execPath, ["-e", program]);
  if (node.stdout) await once(node.stdout, "data");
  const took = JSON.parse(await run(speed, [String(node.pid)])) as Answer;
  await stop(node);
  note(`seal: ${took.bytes} bytes become ${took.sealed} sealed, ${took.stored} saved, ${took.anchor_stored} by zstd -1`);
  const rate = (seconds: number) => took.bytes / 1e6 / seconds;
  const there = { name: "zstd_1_aes_256_gcm", value: rate(took.anchor) };
  figure("seal", rate(took.seal), "MB/s", there);
  figure("seal_save", rate(took.save), "MB/s", there);
  figure("seal_load", rate(took.load), "MB/s", { name: "aes_256_gcm_unzstd", value: rate(took.anchor_back) });
}
