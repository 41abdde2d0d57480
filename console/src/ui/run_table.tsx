import type { ReactNode } from "react";
import type { Run } from "../api/types.ts";
import { Link } from "../app/router.tsx";
import { Id, Status } from "./parts.tsx";
import { Time, durationText, useNow } from "./time.tsx";

/** How long it has taken, or takes so far. */
export function Took({ run }: { run: Run }): ReactNode {
  const now = useNow(run.finished_at ? 60_000 : 1000);
  if (!run.started_at) return <span className="dim">–</span>;
  return durationText(
    (run.finished_at ? Date.parse(run.finished_at) : now) - Date.parse(run.started_at),
  );
}

export function RunTable({ runs }: { runs: Run[] }): ReactNode {
  return (
    <div className="table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>Status</th>
            <th>Task</th>
            <th>Run</th>
            <th>Created</th>
            <th>Took</th>
            <th>Engine</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.id}>
              <td>
                <Status value={run.status} />
              </td>
              <td>
                <Link href={`/runs/${run.id}`}>{run.task_id}</Link>
                {run.tags.map((tag) => (
                  <span key={tag} className="tag">
                    {tag}
                  </span>
                ))}
              </td>
              <td>
                <Id value={run.id} href={`/runs/${run.id}`} />
              </td>
              <td>
                <Time at={run.created_at} />
              </td>
              <td>
                <Took run={run} />
              </td>
              <td className="dim">
                {run.isolation ? `${run.isolation.engine} · ${run.isolation.grade}` : "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
