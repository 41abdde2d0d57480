// A layer of the store as a machine's root drive, against mke2fs on the same tree.
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { has, note } from "../host.ts";
import { figure, median } from "../report.ts";
import { type Stack } from "../stack.ts";
import { layer, prepareTree, program, reference, seconds, work } from "./layer_make.ts";

const rounds = 5;

export async function ext4Write(stack: Stack): Promise<void> {
  if (!(await has("mke2fs")) || !existsSync(program(stack))) {
    note("skipped: ext4_write, mke2fs or the layer program is missing");
    return;
  }
  const { bytes } = await prepareTree(stack);
  const { folders } = await layer(stack, "apply", work, reference);
  const drive = join(work, "drive.ext4");
  const made = join(work, "mke2fs.ext4");
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let i = 0; i < rounds; i++) {
    rmSync(drive, { force: true });
    ours.push((await layer(stack, "drive", work, reference, drive)).seconds);
    rmSync(made, { force: true });
    const size = Math.ceil((bytes * 1.5) / 2 ** 20) + 64;
    const command = `mke2fs -qF -t ext4 -O ^has_journal -d "${folders[0]}" "${made}" ${size}M`;
    theirs.push(await seconds(command, made, "sync"));
  }
  const rate = (times: number[]) => bytes / 1e6 / median(times);
  const taken = (path: string) => statSync(path).blocks * 512;
  note(`ext4_write: ${bytes} bytes of tar take ${taken(drive)}, mke2fs: ${taken(made)}`);
  figure("ext4_write", rate(ours), "MB/s", { name: "mke2fs_d", value: rate(theirs) });
}
