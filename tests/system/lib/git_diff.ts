// Differences of two trees as git tells them, and as `helmr diff --patch` does, in one form.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

/** What git says about the folders `before` and `now` of a place. */
export function gitDiff(place: string, ...args: string[]): string {
  const config = ["-c", "core.quotePath=false", "-c", "diff.indentHeuristic=false"];
  const said = spawnSync("git", [...config, "diff", "--no-index", "--no-renames", ...args, "before", "now"], {
    cwd: place,
    maxBuffer: 1 << 28,
  });
  assert.ok(said.status === 0 || said.status === 1, said.stderr.toString());
  return said.stdout.toString();
}

/** The changed paths, each after the letter of its change, in order. */
export const gitPaths = (place: string): string[] =>
  gitDiff(place, "--name-status")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.replace(/^(\w)\t(before|now)\//, "$1 "))
    .sort();

/** A count of one may be left out: git does so, Helmr does not. */
export const shortened = (hunks: string): string =>
  hunks.replace(/^@@ .*? @@$/gm, (head) => head.replaceAll(/,1(?= )/g, ""));

/** The hunks of each file, without what only git writes around them: the paths are those below the
 * two folders. */
export function hunksOf(diff: string, before = "before/", now = "now/"): Map<string, string> {
  const all = new Map<string, string>();
  for (const part of diff.split(/^diff --git /m).slice(1)) {
    const start = part.search(/^@@ /m);
    const head = part.slice(0, start);
    const [, from] = /^--- a\/(.*?)\t?$/m.exec(head) ?? [];
    const [, to] = /^\+\+\+ b\/(.*?)\t?$/m.exec(head) ?? [];
    const path = to?.slice(now.length) ?? from?.slice(before.length);
    if (path !== undefined && start >= 0)
      all.set(path, part.slice(start).replace(/^(@@ .*? @@).*$/gm, "$1"));
  }
  return all;
}

export interface Told {
  /** As git has them when it looks for no renames, in order; directories are none. */
  readonly paths: readonly string[];
  /** Of each text. */
  readonly hunks: ReadonlyMap<string, string>;
  readonly binaries: readonly string[];
  /** Under their old and their new names. */
  readonly renamed: readonly string[];
}

/** Where the hunk ends that begins at this line: by its counts, for any text may be in it. */
function hunkEnd(lines: readonly string[], start: number): number {
  const counts = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@$/.exec(lines[start] ?? "");
  assert.ok(counts, lines[start]);
  let [before, now] = [Number(counts[1] ?? 1), Number(counts[2] ?? 1)];
  let at = start + 1;
  for (; before > 0 || now > 0 || lines[at]?.startsWith("\\"); at++) {
    const sign = lines[at]?.[0] ?? "";
    assert.match(sign, /[-+ \\]/, `line ${at + 1} is in no hunk: ${lines[at]}`);
    if (sign === "-" || sign === " ") before--;
    if (sign === "+" || sign === " ") now--;
  }
  return at;
}

/** The letter and the path that the two lines above the hunks stand for. */
function headOf(from: string, to: string): [string, string] {
  if (from === "--- /dev/null") return ["A", to.replace("+++ b/", "")];
  if (to === "+++ /dev/null") return ["D", from.replace("--- a/", "")];
  assert.equal(from.replace("--- a/", ""), to.replace("+++ b/", ""));
  return ["M", to.replace("+++ b/", "")];
}

/** What `helmr diff --patch` printed. */
export function readPatch(text: string): Told {
  const lines = text.split("\n");
  const paths: string[] = [];
  const hunks = new Map<string, string>();
  const binaries: string[] = [];
  const renamed: string[] = [];
  assert.equal(lines.pop(), "");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at++] as string;
    if (line.startsWith("--- ")) {
      const [letter, path] = headOf(line, lines[at++] ?? "");
      const start = at;
      while (lines[at]?.startsWith("@@ ")) at = hunkEnd(lines, at);
      paths.push(`${letter} ${path}`);
      hunks.set(path, shortened(lines.slice(start, at).map((one) => `${one}\n`).join("")));
      continue;
    }
    if (line === "Binary files differ") {
      binaries.push(paths.at(-1)?.slice(2) ?? "");
      continue;
    }
    const [, letter, path = ""] = /^([AMDTR]) (.*?)(?: \(mode \d+ → \d+\))?$/.exec(line) ?? [];
    assert.ok(letter, `what is this? ${line}`);
    if (letter === "R") {
      const [from = "", to = ""] = path.split(" → ");
      paths.push(`D ${from}`, `A ${to}`);
      renamed.push(from, to);
    } else if (!path.endsWith("/")) paths.push(`${letter} ${path}`);
  }
  return { paths: paths.sort(), hunks, binaries, renamed };
}
