// Every run of the environment: filtered by the address, older ones as one scrolls.
import { useDeferredValue, useEffect, useRef } from "react";
import type { ReactNode } from "react";
import type { Counts, Run } from "../api/types.ts";
import { useKeys } from "../app/keys.ts";
import { useSearch } from "../app/router.tsx";
import { useRunPages } from "../app/run_pages.ts";
import { useScoped } from "../app/scope.tsx";
import { Empty, PageHead } from "../ui/parts.tsx";
import { useRowsInView } from "../ui/rows_in_view.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Trouble } from "../ui/trouble.tsx";

const statuses = [
  ...["all", "live", "queued", "running", "waiting"],
  ...["succeeded", "failed", "cancelled", "expired"],
];
/* A search goes on by itself through so many, and further by hand. */
const searchedAlone = 2000;
/* So many rows before the end the next are asked for. */
const ahead = 100;

function isLike(run: Run, wanted: string): boolean {
  return [
    run.id,
    run.task_id,
    run.deployment_version,
    ...run.tags,
    JSON.stringify(run.metadata),
    run.error?.message ?? "",
  ].some((part) => part.toLowerCase().includes(wanted));
}

function Statuses({ value, choose }: { value: string; choose(value: string): void }): ReactNode {
  const { data } = useScoped<Counts>("/runs/counts");
  const count = (status: string): number | undefined => data?.[status as keyof Counts];
  return (
    <div className="chips" role="group" aria-label="Status">
      {statuses.map((status) => (
        <button
          key={status}
          type="button"
          className="chip"
          aria-pressed={value === status}
          onClick={() => choose(status)}
        >
          {status}
          {count(status) ? <b>{count(status)?.toLocaleString("en")}</b> : null}
        </button>
      ))}
    </div>
  );
}

export default function Runs(): ReactNode {
  const [status, setStatus] = useSearch("status", "all");
  const [task, setTask] = useSearch("task", "");
  const [text, setText] = useSearch("search", "");
  const search = useRef<HTMLInputElement>(null);
  const onScreen = useRef("");
  const pages = useRunPages({ status, ...(task && { task_id: task }) }, onScreen);
  const tasks = useScoped<{ tasks: { task_id: string }[] }>("/tasks");
  const wanted = useDeferredValue(text.trim().toLowerCase());
  const runs = wanted === "" ? pages.runs : pages.runs.filter((run) => isLike(run, wanted));
  const view = useRowsInView(runs.length);
  onScreen.current = runs[view.first]?.id ?? "";
  const isNearEnd = view.last > runs.length - ahead;
  const isSearching = wanted !== "" && pages.runs.length < searchedAlone;
  useEffect(() => {
    if (pages.hasMore && !pages.error && (wanted === "" ? isNearEnd : isSearching)) pages.more();
  });
  useKeys([{ keys: "f", words: "search in the runs", act: () => search.current?.focus() }]);
  return (
    <>
      <PageHead title="Runs" />
      <div className="filters" role="search">
        <Statuses value={status} choose={setStatus} />
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
          ref={search}
          type="search"
          aria-label="Search in the runs"
          placeholder="Id, task, tag, metadata or error…"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="dim" role="status">
          {wanted === ""
            ? `${runs.length.toLocaleString("en")}${pages.hasMore ? "+" : ""} runs`
            : `${runs.length.toLocaleString("en")} of ${pages.runs.length.toLocaleString("en")}${pages.hasMore ? "+" : ""} runs`}
        </span>
      </div>
      {pages.error && <Trouble error={pages.error} retry={pages.retry} />}
      {pages.isLoaded && runs.length === 0 && !(isSearching && pages.hasMore) ? (
        <Nothing isFiltered={status !== "all" || task !== "" || wanted !== ""} />
      ) : (
        <RunTable runs={runs} select view={view} />
      )}
      {wanted !== "" && pages.hasMore && !isSearching && (
        <p>
          <button type="button" className="quiet" onClick={pages.more}>
            Search in older runs
          </button>
        </p>
      )}
    </>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }): ReactNode {
  return isFiltered ? (
    <Empty title="No run is like that">Choose another status or task, or search for less.</Empty>
  ) : (
    <Empty title="Nothing has run here yet" command="helmr run TASK">
      Deploy a project with <code>helmr deploy</code>, then start one of its tasks:
    </Empty>
  );
}
