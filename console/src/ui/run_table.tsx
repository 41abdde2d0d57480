// Runs as a table of any length: only the rows one sees are on the page.
import { useState } from "react";
import type { ReactNode } from "react";
import type { Run } from "../api/types.ts";
import { useKeys } from "../app/keys.ts";
import { Link, navigate } from "../app/router.tsx";
import { Id, Status } from "./parts.tsx";
import { Room, useRowsInView } from "./rows_in_view.tsx";
import type { RowsInView } from "./rows_in_view.tsx";
import { Time, durationText, useNow } from "./time.tsx";

/** How long it has taken, or takes so far. */
export function Took({ run }: { run: Run }): ReactNode {
  const now = useNow(run.finished_at ? 60_000 : 1000);
  if (!run.started_at) return <span className="dim">–</span>;
  return durationText(
    (run.finished_at ? Date.parse(run.finished_at) : now) - Date.parse(run.started_at),
  );
}

function RunRow({ run, isAt }: { run: Run; isAt: boolean }): ReactNode {
  return (
    <tr data-row className={isAt ? "is-at" : undefined} aria-current={isAt || undefined}>
      <td className="col-status">
        <Status value={run.status} />
      </td>
      <td className="col-task">
        <Link href={`/runs/${run.id}`}>{run.task_id}</Link>
        {run.tags.map((tag) => (
          <span key={tag} className="tag">
            {tag}
          </span>
        ))}
        {run.error && (
          <span className="why" title={run.error.message}>
            {run.error.message}
          </span>
        )}
        {run.status === "queued" && run.queued_reason && (
          <span className="why">{run.queued_reason.replaceAll("_", " ")}</span>
        )}
      </td>
      <td className="col-id">
        <Id value={run.id} href={`/runs/${run.id}`} />
      </td>
      <td className="col-created">
        <Time at={run.created_at} />
      </td>
      <td className="col-took">
        <Took run={run} />
      </td>
      <td className="col-engine dim">
        {run.isolation ? `${run.isolation.engine} · ${run.isolation.grade}` : "–"}
      </td>
    </tr>
  );
}

/** `select` lets the keyboard choose rows; `view` is whose scrolling somebody else follows, too. */
export function RunTable({
  runs,
  select,
  view,
}: {
  runs: Run[];
  select?: boolean;
  view?: RowsInView;
}): ReactNode {
  const own = useRowsInView(runs.length);
  const { box, first, last, roomBefore, roomAfter, scrollTo } = view ?? own;
  const [chosen, setChosen] = useState<string>();
  const at = runs.findIndex(({ id }) => id === chosen);
  const go = (to: number): void => {
    const run = runs[Math.max(0, Math.min(runs.length - 1, to))];
    if (!run) return;
    setChosen(run.id);
    scrollTo(runs.indexOf(run));
  };
  useKeys(
    select
      ? [
          { keys: "j", words: "next run", act: () => go(at + 1) },
          { keys: "k", words: "previous run", act: () => go(at < 0 ? 0 : at - 1) },
          {
            keys: "o",
            words: "open the run",
            act: () => chosen !== undefined && navigate(`/runs/${chosen}`),
          },
        ]
      : [],
  );
  return (
    <div className="table" tabIndex={0}>
      <table className="runs" aria-rowcount={runs.length + 1}>
        <thead>
          <tr>
            <th className="col-status">Status</th>
            <th className="col-task">Task</th>
            <th className="col-id">Run</th>
            <th className="col-created">Created</th>
            <th className="col-took">Took</th>
            <th className="col-engine">Engine</th>
          </tr>
        </thead>
        <tbody ref={box}>
          <Room px={roomBefore} />
          {runs.slice(first, last).map((run) => (
            <RunRow key={run.id} run={run} isAt={run.id === chosen} />
          ))}
          <Room px={roomAfter} />
        </tbody>
      </table>
    </div>
  );
}
