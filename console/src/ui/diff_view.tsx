// What changed in a workspace, file by file, with the numbers of lines on both sides.
import { useMemo, useState } from "react";
import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { DiffEntry } from "../api/types.ts";
import { useScope, useScoped } from "../app/scope.tsx";
import { useSubmit } from "./parts.tsx";
import { sizeText } from "./bytes.ts";
import { Trouble } from "./trouble.tsx";

const letters = {
  added: "A",
  modified: "M",
  deleted: "D",
  renamed: "R",
  type_changed: "T",
  mode_changed: "M",
};

interface Line {
  kind: "plus" | "minus" | "hunk" | "";
  before: number | undefined;
  after: number | undefined;
  text: string;
}

/** The lines of a patch, without its two lines of names. */
function linesOf(patch: string): Line[] {
  const lines: Line[] = [];
  let before = 0;
  let after = 0;
  for (const text of patch.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      lines.push({ kind: "hunk", before: undefined, after: undefined, text });
    } else if (lines.length === 0) continue;
    else if (text.startsWith("+"))
      lines.push({ kind: "plus", before: undefined, after: after++, text });
    else if (text.startsWith("-"))
      lines.push({ kind: "minus", before: before++, after: undefined, text });
    else if (text.startsWith("\\"))
      lines.push({ kind: "hunk", before: undefined, after: undefined, text });
    else lines.push({ kind: "", before: before++, after: after++, text });
  }
  return lines;
}

function Counts({ lines }: { lines: Line[] }): ReactNode {
  const count = (kind: Line["kind"]): number => lines.filter((line) => line.kind === kind).length;
  return (
    <span className="counts">
      <span className="is-added">+{count("plus")}</span>{" "}
      <span className="is-deleted">−{count("minus")}</span>
    </span>
  );
}

function sizesOf({ size_before, size_after }: DiffEntry): string {
  const before = size_before === undefined || size_before === null ? "" : sizeText(size_before);
  const after = size_after === undefined || size_after === null ? "" : sizeText(size_after);
  if (before === "" || after === "" || before === after) return before || after;
  return `${before} → ${after}`;
}

function Patch({ entry, lines }: { entry: DiffEntry; lines: Line[] }): ReactNode {
  if (lines.length === 0)
    return (
      <p className="dim">
        {entry.binary
          ? "The two are not text, and differ."
          : entry.type === "file"
            ? "No lines to show."
            : `A ${entry.type}.`}
      </p>
    );
  return (
    <div className="patch" tabIndex={0} role="group" aria-label={`Changes of ${entry.path}`}>
      {lines.map((line, i) => (
        <div key={i} className={line.kind}>
          <i aria-hidden="true">{line.before ?? ""}</i>
          <i aria-hidden="true">{line.after ?? ""}</i>
          <code>{line.text}</code>
        </div>
      ))}
    </div>
  );
}

function Entry({
  entry,
  isOpen,
  toggle,
}: {
  entry: DiffEntry;
  isOpen: boolean;
  toggle(isOpen: boolean): void;
}): ReactNode {
  const lines = useMemo(() => linesOf(entry.patch ?? ""), [entry.patch]);
  return (
    <details
      open={isOpen}
      onToggle={(event) => {
        if (event.currentTarget.open !== isOpen) toggle(event.currentTarget.open);
      }}
    >
      <summary>
        <b className={`change is-${entry.change}`} title={entry.change.replace("_", " ")}>
          {letters[entry.change]}
        </b>{" "}
        <code>
          {entry.path_before ? `${entry.path_before} → ` : ""}
          {entry.path}
        </code>{" "}
        {lines.length > 0 ? (
          <Counts lines={lines} />
        ) : (
          <span className="counts dim">{sizesOf(entry)}</span>
        )}
      </summary>
      {isOpen && <Patch entry={entry} lines={lines} />}
    </details>
  );
}

interface Page {
  entries: DiffEntry[];
  next_cursor?: string | null;
}

const openAtFirst = 5;

export function DiffView({
  path,
  query = {},
}: {
  path: string;
  query?: Record<string, string>;
}): ReactNode {
  const { place } = useScope();
  const asked = { ...query, patch: 1, limit: 200 };
  const name = JSON.stringify([path, query]);
  const { data, error, refresh } = useScoped<Page>(path, asked);
  const [open, setOpen] = useState<Set<string>>();
  const [later, setLater] = useState<{ name: string; page: Page }>();
  const rest = later?.name === name ? later.page : undefined;
  const cursor = (rest ?? data)?.next_cursor;
  const more = useSubmit(async () => {
    const page = await get<Page>(path, { ...place, query: { ...asked, cursor: cursor as string } });
    setLater({ name, page: { ...page, entries: [...(rest?.entries ?? []), ...page.entries] } });
  });
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!data)
    return (
      <p className="dim" role="status">
        Loading…
      </p>
    );
  const entries = [...data.entries, ...(rest?.entries ?? [])];
  if (entries.length === 0) return <p className="dim">No file was changed.</p>;
  const isOpen = (entry: DiffEntry): boolean =>
    open ? open.has(entry.path) : entries.length <= openAtFirst;
  const areAllOpen = entries.every(isOpen);
  return (
    <div className="diff">
      <div className="diff-head">
        <span className="dim">
          {entries.length}
          {cursor ? " and more" : ""} changed
        </span>
        <button
          type="button"
          className="quiet"
          onClick={() => setOpen(new Set(areAllOpen ? [] : entries.map((one) => one.path)))}
        >
          {areAllOpen ? "Close all" : "Open all"}
        </button>
      </div>
      {entries.map((entry) => (
        <Entry
          key={entry.path}
          entry={entry}
          isOpen={isOpen(entry)}
          toggle={(next) => {
            const now = new Set(entries.filter(isOpen).map((one) => one.path));
            if (next) now.add(entry.path);
            else now.delete(entry.path);
            setOpen(now);
          }}
        />
      ))}
      {more.error && <Trouble error={more.error} />}
      {cursor && (
        <button
          type="button"
          className="quiet"
          disabled={more.isBusy}
          onClick={() => more.submit()}
        >
          More changes
        </button>
      )}
    </div>
  );
}
