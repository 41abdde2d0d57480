// Versions of a workspace: all of one captured, put into the next sandbox, and captured again after
// ten files of it changed.
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fill, type Tree } from "../project/tree.ts";
import { folder, has, note, run } from "../host.ts";
import { figure, median } from "../report.ts";
import { awaitRun, type RunEvent, type Stack, startUp, url } from "../stack.ts";

const rounds = 3;

/** Few files, so that bytes are what is measured. */
const large: Tree = { files: 3000, bytes: 300_000_000 };
/** Many files, BENCH_FILES where there is no time for all of them. */
const many: Tree = {
  files: Number(process.env.BENCH_FILES ?? 200_000),
  bytes: Number(process.env.BENCH_FILES ?? 200_000) * 2000,
};

interface Started {
  run: { id: string; workspace_id: string };
}

async function finish(
  stack: Stack,
  task: string,
  payload: Tree,
  workspace?: string,
): Promise<{ workspace: string; events: RunEvent[] }> {
  const answer = await fetch(`${url(stack)}/api/sessions`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.key}`, "content-type": "application/json" },
    body: JSON.stringify({ task_id: task, payload, workspace_id: workspace }),
  });
  if (!answer.ok) throw new Error(`POST /api/sessions: ${await answer.text()}`);
  const { run } = (await answer.json()) as Started;
  const events = await awaitRun(stack, run.id);
  if (!events.some(({ kind }) => kind === "run.completed"))
    throw new Error(`${task} did not succeed: ${JSON.stringify(events.at(-1))}`);
  return { workspace: run.workspace_id, events };
}

function captured(events: RunEvent[]): Record<string, number> {
  const found = events.find(({ kind }) => kind === "workspace.version_captured");
  if (!found) throw new Error("no version was captured");
  return found.attributes as Record<string, number>;
}

function phase(events: RunEvent[], step: string): number {
  const found = events.find(
    ({ kind, attributes }) => kind === "run.prepare" && attributes["step"] === step,
  );
  return Number(found?.attributes["ms"]);
}

const rate = (bytes: number, ms: number) => bytes / ms / 1000;

/** The same tree on this host, to a file. */
async function tar(tree: string): Promise<number> {
  const begun = performance.now();
  await run("sh", ["-c", `tar -c . | zstd -q -1 -o "${tree}.zst" -f && sync -f "${tree}.zst"`], { cwd: tree });
  return performance.now() - begun;
}

export async function captureFull(stack: Stack): Promise<void> {
  const tree = join(folder, "versions");
  const hasAnchor = await has("zstd");
  await startUp(stack);
  mkdirSync(tree, { recursive: true });
  fill(tree, large);
  const ours: number[] = [];
  const theirs: number[] = [];
  const placed: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const { workspace, events } = await finish(stack, "make-files", large);
    ours.push(captured(events)["capture_ms"] as number);
    if (hasAnchor) theirs.push(await tar(tree));
    placed.push(phase((await finish(stack, "touch-ten", large, workspace)).events, "workspace"));
  }
  rmSync(tree, { recursive: true });
  if (!hasAnchor) note("skipped: tar_zstd_1: there is no zstd");
  const anchor = { name: "tar_zstd_1", value: rate(large.bytes, median(theirs)) };
  figure("capture_full", rate(large.bytes, median(ours)), "MB/s", hasAnchor ? anchor : undefined);
  figure("materialise", rate(large.bytes, median(placed)), "MB/s");
}

export async function captureSmall(stack: Stack): Promise<void> {
  await startUp(stack);
  const { workspace } = await finish(stack, "make-files", many);
  const took: number[] = [];
  for (let round = 0; round < 3; round++) {
    const { events } = await finish(stack, "touch-ten", many, workspace);
    const { capture_ms: ms, files_read: read } = captured(events);
    if (read !== 10) throw new Error(`${read} files were read`);
    took.push(ms as number);
  }
  figure("capture_small", median(took), "ms", { name: "goal_300", value: 300 });
}
