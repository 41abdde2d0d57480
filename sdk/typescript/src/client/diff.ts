// What differs between two states of a workspace.
import { given } from "./record.js";

export type DiffChange =
  "added" | "modified" | "deleted" | "renamed" | "type_changed" | "mode_changed";

export interface DiffEntry {
  readonly path: string;
  readonly change: DiffChange;
  readonly type: string;
  readonly pathBefore?: string;
  readonly sizeBefore?: number;
  readonly sizeAfter?: number;
  readonly modeBefore?: number;
  readonly modeAfter?: number;
  /** A unified diff, when it was asked for and both sides are text of at most 256 KiB. */
  readonly patch?: string;
  readonly isBinary?: boolean;
}

export interface Diff {
  readonly fromVersionId?: string;
  readonly toVersionId?: string;
  /** By path. */
  readonly entries: readonly DiffEntry[];
}

/** A version of any workspace of the environment, `"image"` for what the image alone holds, or
 * `"live"` for what the sandbox holds right now. */
export type DiffSide = string;

export interface DiffWish {
  readonly from: DiffSide | undefined;
  readonly to: DiffSide | undefined;
  readonly patch: boolean | undefined;
  readonly path: string | undefined;
}

export type DiffRecord = Record<string, any> & { entries: Record<string, any>[] };

export function diffEntry(entry: Record<string, any>): DiffEntry {
  return {
    path: entry.path,
    change: entry.change,
    type: entry.type,
    ...given({
      pathBefore: entry.path_before as string | null | undefined,
      sizeBefore: entry.size_before as number | null | undefined,
      sizeAfter: entry.size_after as number | null | undefined,
      modeBefore: entry.mode_before as number | null | undefined,
      modeAfter: entry.mode_after as number | null | undefined,
      patch: entry.patch as string | null | undefined,
      isBinary: entry.binary as boolean | null | undefined,
    }),
  };
}

/** All pages. They are of the versions that the first one names: what a sandbox holds is another
 * thing by the next page. */
export async function wholeDiff(
  { from, to, patch, path }: DiffWish,
  ask: (query: Record<string, string | number | undefined>) => Promise<DiffRecord>,
): Promise<Diff> {
  const entries: DiffEntry[] = [];
  const query = { from, to, patch: patch ? 1 : undefined, path };
  let page = await ask(query);
  const versions = {
    from: page.from_version_id as string | null,
    to: page.to_version_id as string | null,
  };
  for (;;) {
    entries.push(...page.entries.map(diffEntry));
    if (!page.next_cursor)
      return { ...given({ fromVersionId: versions.from, toVersionId: versions.to }), entries };
    page = await ask({
      ...query,
      from: versions.from ?? "image",
      to: versions.to ?? "image",
      cursor: page.next_cursor as string,
    });
  }
}
