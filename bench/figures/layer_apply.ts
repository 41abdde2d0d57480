// A layer of the store unpacked for a sandbox, against tar on the same bytes.
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { has, note } from "../host.ts";
import { figure, median } from "../report.ts";
import { type Stack } from "../stack.ts";
import { layer, prepareTree, program, reference, seconds, work } from "./layer_make.ts";

const rounds = 5;

async function unpack(command: string): Promise<number> {
  const into = join(work, "into");
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into);
  return await seconds(`tar -C into --numeric-owner -xp ${command}`, into);
}

export async function layerApply(stack: Stack): Promise<void> {
  if (!(await has("zstd")) || !existsSync(program(stack))) {
    note("skipped: layer_apply, zstd or the layer program is missing");
    return;
  }
  const { blob, bytes } = await prepareTree(stack);
  const ours: number[] = [];
  const packed: number[] = [];
  const plain: number[] = [];
  for (let i = 0; i < rounds; i++) {
    ours.push((await layer(stack, "apply", work, reference)).seconds);
    packed.push(await unpack(`--zstd -f "${blob}"`));
    plain.push(await unpack("-f layer.tar"));
  }
  const rate = (times: number[]) => bytes / 1e6 / median(times);
  figure("layer_apply", rate(ours), "MB/s", { name: "tar_x_zstd", value: rate(packed) });
  figure("layer_apply", rate(ours), "MB/s", { name: "tar_x", value: rate(plain) });
}
