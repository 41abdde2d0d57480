// The commands of a README, as its readers type them: the blocks marked `sh run`, in order and in
// one shell, each with what it must print in the `text` block that follows it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { command } from "./installation.ts";

export interface Block {
  readonly commands: string;
  /** Lines of stdout; `…` is any text within a line. Nothing is compared when there is none. */
  readonly prints?: string;
}

const fenced = /^```sh run\n(.*?)^```\n(?:```text\n(.*?)^```\n)?/gms;

export const blocksOf = (file: string): Block[] =>
  [...readFileSync(file, "utf8").matchAll(fenced)].map(([, commands = "", prints]) => ({
    commands,
    ...(prints !== undefined && { prints }),
  }));

/** Whether a text is what a block says, line by line. */
export function matches(prints: string, text: string): boolean {
  const escaped = prints.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("…", ".*");
  return new RegExp(`^${escaped}$`).test(text);
}

/* Between what two blocks print. */
const mark = "\u001e";

/** Runs all blocks with bash in a folder; each must succeed and print what it says. */
export async function follow(
  blocks: readonly Block[],
  cwd: string,
  env: Record<string, string>,
): Promise<void> {
  const script = blocks.map(({ commands }) => `${commands}printf '${mark}'\n`).join("");
  const { code, stdout, stderr } = await command("bash", ["-euc", script], { cwd, env });
  const printed = stdout.split(mark);
  const at = blocks[printed.length - 1]?.commands ?? "";
  assert.equal(code, 0, `${at}${printed.at(-1)}${stderr}`);
  for (const [n, { commands, prints }] of blocks.entries())
    if (prints !== undefined && !matches(prints, printed[n] as string))
      assert.fail(`${commands}printed\n${printed[n]}and not\n${prints}${stderr}`);
}
