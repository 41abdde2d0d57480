// What changed in a workspace, file by file.
import { useState } from "react";
import type { ReactNode } from "react";
import type { DiffEntry } from "../api/types.ts";
import { useScoped } from "../app/scope.tsx";
import { Empty } from "./parts.tsx";
import { Trouble } from "./trouble.tsx";

const letters = {
  added: "A",
  modified: "M",
  deleted: "D",
  renamed: "R",
  type_changed: "T",
  mode_changed: "M",
};

function kindOf(line: string): string {
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+++") || line.startsWith("---")) return "name";
  if (line.startsWith("+")) return "plus";
  return line.startsWith("-") ? "minus" : "";
}

function Patch({ entry }: { entry: DiffEntry }): ReactNode {
  if (!entry.patch)
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
    <pre className="patch" tabIndex={0}>
      {entry.patch.split("\n").map((line, i) => (
        <span key={i} className={kindOf(line)}>
          {line}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

export function DiffView({
  path,
  query = {},
}: {
  path: string;
  query?: Record<string, string>;
}): ReactNode {
  const { data, error, refresh } = useScoped<{ entries: DiffEntry[]; next_cursor?: string }>(path, {
    ...query,
    patch: 1,
    limit: 500,
  });
  const [open, setOpen] = useState<Set<string>>();
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!data)
    return (
      <p className="dim" role="status">
        Loading…
      </p>
    );
  if (data.entries.length === 0) return <Empty title="Nothing was changed" />;
  const isOpen = (entry: DiffEntry): boolean =>
    open ? open.has(entry.path) : data.entries.length <= 5;
  return (
    <div className="diff">
      <p className="dim">
        {data.entries.length}
        {data.next_cursor ? " and more" : ""} changed
      </p>
      {data.entries.map((entry) => (
        <details
          key={entry.path}
          open={isOpen(entry)}
          onToggle={(event) => {
            const next = new Set(open ?? data.entries.filter(isOpen).map((one) => one.path));
            if (event.currentTarget.open) next.add(entry.path);
            else next.delete(entry.path);
            setOpen(next);
          }}
        >
          <summary>
            <b className={`change is-${entry.change}`} title={entry.change.replace("_", " ")}>
              {letters[entry.change]}
            </b>{" "}
            <code>
              {entry.path_before ? `${entry.path_before} → ` : ""}
              {entry.path}
            </code>
          </summary>
          {isOpen(entry) && <Patch entry={entry} />}
        </details>
      ))}
    </div>
  );
}
