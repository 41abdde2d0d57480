import type { ReactNode } from "react";
import type { Session } from "../api/types.ts";
import { Link, useSearch } from "../app/router.tsx";
import { useScoped } from "../app/scope.tsx";
import { List } from "../ui/list.tsx";
import { Empty, Id, PageHead, Status } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";

export default function Sessions(): ReactNode {
  const [status, setStatus] = useSearch("status", "open");
  const [externalId, setExternalId] = useSearch("external_id", "");
  const query = useScoped<{ sessions: Session[] }>("/sessions", {
    status,
    limit: 100,
    ...(externalId && { external_id: externalId }),
  });
  return (
    <>
      <PageHead
        title="Sessions"
        lead="A task, its runs and its streams, for as long as the conversation goes on"
      />
      <div className="filters" role="search">
        <label>
          <span className="hidden">Status</span>
          <select value={status} onChange={(event) => setStatus(event.target.value)}>
            {["open", "closed", "cancelled", "expired", "all"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <input
          type="search"
          aria-label="External id"
          placeholder="External id"
          value={externalId}
          onChange={(event) => setExternalId(event.target.value)}
        />
      </div>
      <List
        query={query}
        items={query.data?.sessions}
        keyOf={({ id }) => id}
        empty={<Empty title="No session is like that" command="helmr session start TASK" />}
        columns={[
          { head: "Status", cell: (one) => <Status value={one.status} /> },
          { head: "Task", cell: (one) => <Link href={`/sessions/${one.id}`}>{one.task_id}</Link> },
          { head: "Session", cell: (one) => <Id value={one.id} href={`/sessions/${one.id}`} /> },
          { head: "External id", cell: (one) => one.external_id ?? <span className="dim">–</span> },
          { head: "Activity", cell: (one) => one.activity.replaceAll("_", " ") },
          {
            head: "Run",
            cell: (one) =>
              one.current_run_id ? (
                <Id value={one.current_run_id} href={`/runs/${one.current_run_id}`} />
              ) : (
                <span className="dim">–</span>
              ),
          },
          { head: "Updated", cell: (one) => <Time at={one.updated_at} /> },
        ]}
      />
    </>
  );
}
