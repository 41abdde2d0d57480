// Looks for bytes in every file of a folder, also in what is compressed.
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readSync, readdirSync, rmSync } from "node:fs";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";

/** The forms in which a value could have got somewhere. */
export function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  // Where base64 puts it depends on what is before it: three ways, less the shared characters.
  const encoded = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString("base64");
    return text.slice(before ? 4 : 0, text.length - 4);
  });
  return [value, encodeURIComponent(value), bytes.toString("hex"), ...encoded];
}

/* Every file below; a symbolic link leads nowhere, least of all out of here. */
function* filesOf(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* filesOf(path);
    else if (entry.isFile()) yield path;
  }
}

function inflater(path: string): string | undefined {
  const fd = openSync(path, "r");
  const bytes = Buffer.alloc(4);
  readSync(fd, bytes, 0, 4, 0);
  closeSync(fd);
  const kind = bytes.toString("hex");
  return kind.startsWith("1f8b") ? "gzip" : kind === "28b52ffd" ? "zstd" : undefined;
}

export interface Found {
  /** Paths of files that hold one of the forms, themselves or when inflated. */
  readonly files: string[];
  readonly searched: number;
  readonly inflated: number;
}

export function grepTree(folder: string, forms: readonly string[]): Found {
  const own = mkdtempSync(`${tmpdir()}/helmr-forms-`);
  const list = `${own}/forms`;
  writeFileSync(list, forms.join("\n"));
  const all = [...filesOf(folder)];
  const packed = all.flatMap((path) => {
    const program = inflater(path);
    return program ? [{ path, program }] : [];
  });
  // By bytes of zero and not by lines, which may be as long as a disk; 1 is its word for nothing.
  const raw = spawnSync("grep", ["-rlazF", "-f", list, folder], { encoding: "utf8" });
  if (raw.status !== 0 && raw.status !== 1) throw new Error(raw.stderr);
  const inside = packed.filter(({ path, program }) => {
    const line = `${program} -dcq < "$0" 2>/dev/null | grep -aFc -f "$1" || true`;
    return execFileSync("sh", ["-c", line, path, list]).toString().trim() !== "0";
  });
  rmSync(own, { recursive: true });
  const files = [...raw.stdout.split("\n").filter((path) => path !== ""), ...inside.map(({ path }) => path)];
  return { files, searched: all.length, inflated: packed.length };
}
