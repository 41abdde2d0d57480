import { readdirSync } from "node:fs";

export interface Entry {
  /** Relative to the root of the walk. */
  readonly path: string;
  readonly kind: "file" | "directory" | "link" | "other";
}

const neverDeployed = /^(?:node_modules|\.git|\.helmr|\.next|\.env|\.env\..*)$/;

function kindOf(entry: import("node:fs").Dirent): Entry["kind"] {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "directory";
  return entry.isSymbolicLink() ? "link" : "other";
}

/** Everything a deployment may hold below `root`, sorted, parents first. */
export function* tree(root: string, below = ""): Generator<Entry> {
  const entries = readdirSync(`${root}/${below}`, { withFileTypes: true });
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    if (neverDeployed.test(entry.name)) continue;
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    const kind = kindOf(entry);
    yield { path, kind };
    if (kind === "directory") yield* tree(root, path);
  }
}
