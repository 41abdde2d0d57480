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
