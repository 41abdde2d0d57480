// A root file system as a compressed layer in the store, against tar and zstd on the same tree.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { folder, has, note, run } from "../host.ts";
import { figure, median } from "../report.ts";
import { data, type Stack } from "../stack.ts";

const rounds = 5;
const base = "docker.io/library/node:24-bookworm-slim";
export const reference = "docker.io/library/layer:1";
export const work = join(folder, "layers");
const tree = join(work, "tree");

export const program = (stack: Stack) => resolve(stack.build, "layer");

interface Answer {
  seconds: number;
  blob: string;
  folders: string[];
}

export async function layer(stack: Stack, ...words: string[]): Promise<Answer> {
  return JSON.parse(await run(program(stack), words)) as Answer;
}

/** Seconds of a shell command whose result is on the disk at its end, as ours is: a folder with all
 * of its file system, as ours is too, or a file alone. */
export async function seconds(script: string, result: string, sync = "sync -f"): Promise<number> {
  await run("sync", []);
  const begun = performance.now();
  await run("sh", ["-c", `${script} && ${sync} "${result}"`], { cwd: work });
  return (performance.now() - begun) / 1000;
}

/** The Node base as one tree, and as an image of one layer. */
export async function prepareTree(stack: Stack): Promise<{ blob: string; bytes: number }> {
  if (!existsSync(tree)) {
    const from = join(work, "from");
    mkdirSync(from, { recursive: true });
    execFileSync("cp", ["-al", join(data, "worker/oci"), from]);
    const { folders } = await layer(stack, "apply", from, base);
    mkdirSync(tree);
    for (const each of folders) execFileSync("cp", ["-a", `${each}/.`, tree]);
  }
  const { blob } = await layer(stack, "make", work, reference, tree);
  const tar = join(work, "layer.tar");
  if (!existsSync(tar)) await run("sh", ["-c", `zstd -qdc < "${blob}" > "${tar}"`]);
  return { blob, bytes: statSync(tar).size };
}

export async function layerMake(stack: Stack): Promise<void> {
  if (!(await has("zstd")) || !existsSync(program(stack))) {
    note("skipped: layer_make, zstd or the layer program is missing");
    return;
  }
  const { blob, bytes } = await prepareTree(stack);
  const made = join(work, "made.tar.zst");
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push((await layer(stack, "make", work, reference, tree)).seconds);
    theirs.push(await seconds(`tar -C tree -c . | zstd -1 -q > "${made}"`, dirname(made)));
  }
  const rate = (times: number[]) => bytes / 1e6 / median(times);
  note(`layer_make: ${bytes} bytes become ${statSync(blob).size}, zstd -1: ${statSync(made).size}`);
  figure("layer_make", rate(ours), "MB/s", { name: "tar_c_zstd_1", value: rate(theirs) });
}
