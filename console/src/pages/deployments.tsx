// What was deployed, newest first.
import type { ReactNode } from "react";
import type { Deployment } from "../api/types.ts";
import { Link } from "../app/router.tsx";
import { useScoped } from "../app/scope.tsx";
import { List } from "../ui/list.tsx";
import { Empty, PageHead, Status } from "../ui/parts.tsx";
import { Time, durationText } from "../ui/time.tsx";

export default function Deployments(): ReactNode {
  const query = useScoped<{ deployments: Deployment[] }>("/deployments", { limit: 100 });
  return (
    <>
      <PageHead
        title="Deployments"
        lead="What was built of your project; new runs use the current one"
      />
      <List
        query={query}
        items={query.data?.deployments}
        keyOf={({ id }) => id}
        empty={<Empty title="Nothing is deployed here" command="helmr deploy" />}
        columns={[
          { head: "Status", cell: (one) => <Status value={one.status} /> },
          {
            head: "Version",
            cell: (one) => (
              <>
                <Link href={`/deployments/${one.id}`}>{one.version}</Link>
                {one.is_current && <span className="tag">current</span>}
              </>
            ),
          },
          {
            head: "Tasks",
            cell: (one) => (
              <span title={one.tasks.map(({ task_id }) => task_id).join("\n")}>
                {one.tasks.map(({ task_id }) => task_id).join(", ") || (
                  <span className="dim">{one.error?.message ?? "–"}</span>
                )}
              </span>
            ),
          },
          { head: "Created", cell: (one) => <Time at={one.created_at} /> },
          {
            head: "Took",
            cell: (one) =>
              one.deployed_at ? (
                durationText(Date.parse(one.deployed_at) - Date.parse(one.created_at))
              ) : (
                <span className="dim">–</span>
              ),
          },
          { head: "Promoted", cell: (one) => <Time at={one.promoted_at} /> },
        ]}
      />
    </>
  );
}
