// Every run of the environment: filtered by the address, older ones on demand.
import { useState } from "react";
import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { Counts, Run } from "../api/types.ts";
import { useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Empty, PageHead, useSubmit } from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Trouble } from "../ui/trouble.tsx";

interface Page {
  runs: Run[];
  next_cursor?: string | null;
}
const statuses = [
  "live",
  "all",
  "queued",
  "running",
  "waiting",
  "succeeded",
  "failed",
  "cancelled",
  "expired",
];

function useOlder(
  query: Record<string, string>,
  first: Page | undefined,
): { runs: Run[]; more?: () => void; isBusy: boolean; error: Error | undefined } {
  const { place } = useScope();
  const name = JSON.stringify([place, query]);
  const [older, setOlder] = useState<{ name: string; runs: Run[]; next?: string | null }>({
    name,
    runs: [],
  });
  const mine = older.name === name ? older : { name, runs: [] as Run[] };
  const cursor = mine.runs.length > 0 ? mine.next : first?.next_cursor;
  const { isBusy, error, submit } = useSubmit(async () => {
    const page = await get<Page>("/runs", {
      ...place,
      query: { ...query, limit: 100, cursor: cursor as string },
    });
    setOlder({ name, runs: [...mine.runs, ...page.runs], next: page.next_cursor ?? null });
  });
  /* What was the last of the first page may stand at the top of the second when new ones came. */
  const known = new Set(first?.runs.map(({ id }) => id));
  return {
    runs: [...(first?.runs ?? []), ...mine.runs.filter(({ id }) => !known.has(id))],
    isBusy,
    error,
    ...(cursor && { more: () => submit() }),
  };
}

export default function Runs(): ReactNode {
  const [status, setStatus] = useSearch("status", "live");
  const [task, setTask] = useSearch("task", "");
  const [text, setText] = useState("");
  const query = { status, ...(task && { task_id: task }) };
  const counts = useScoped<Counts>("/runs/counts");
  const first = useScoped<Page>("/runs", { ...query, limit: 100 });
  const older = useOlder(query, first.data);
  const tasks = useScoped<{ tasks: { task_id: string }[] }>("/tasks");
  const wanted = text.trim().toLowerCase();
  const runs = older.runs.filter(
    (run) =>
      wanted === "" ||
      [
        run.id,
        run.task_id,
        ...run.tags,
        JSON.stringify(run.metadata),
        run.error?.message ?? "",
      ].some((part) => part.toLowerCase().includes(wanted)),
  );
  return (
    <>
      <PageHead title="Runs" />
      <div className="filters" role="search">
        <label>
          <span className="hidden">Status</span>
          <select value={status} onChange={(event) => setStatus(event.target.value)}>
            {statuses.map((one) => (
              <option key={one} value={one}>
                {one}
                {counts.data && one in counts.data ? ` (${counts.data[one as keyof Counts]})` : ""}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span className="hidden">Task</span>
          <select value={task} onChange={(event) => setTask(event.target.value)}>
            <option value="">every task</option>
            {tasks.data?.tasks.map(({ task_id }) => (
              <option key={task_id}>{task_id}</option>
            ))}
          </select>
        </label>
        <input
          type="search"
          aria-label="Search in what is loaded"
          placeholder="Id, tag, metadata or error…"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="dim" role="status">
          {runs.length} shown
        </span>
      </div>
      {first.error && <Trouble error={first.error} retry={first.refresh} />}
      {first.data && runs.length === 0 ? (
        <Empty
          title={status === "live" ? "Nothing is running" : "No run is like that"}
          command="helmr run TASK"
        />
      ) : (
        <RunTable runs={runs} />
      )}
      {older.error && <Trouble error={older.error} />}
      {older.more && (
        <p>
          <button type="button" className="quiet" disabled={older.isBusy} onClick={older.more}>
            {older.isBusy ? "Loading…" : "Older runs"}
          </button>
        </p>
      )}
    </>
  );
}
