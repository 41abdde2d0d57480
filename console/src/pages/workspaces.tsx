// Every workspace of the environment, those of runs among them.
import type { ReactNode } from "react";
import { client } from "../api/client.ts";
import { useQuery } from "../app/query.ts";
import { Link, useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { List } from "../ui/list.tsx";
import { Empty, Id, PageHead, Status } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";

const states = ["active", "archived", "recovery_required"] as const;

export default function Workspaces(): ReactNode {
  const { place } = useScope();
  const [state, setState] = useSearch("state", "active");
  const query = useQuery(`${place.environmentId} workspaces ${state}`, () =>
    client.workspaces.list({ ...place, state: state as (typeof states)[number], limit: 100 }),
  );
  return (
    <>
      <PageHead title="Workspaces" lead="Files that outlive the runs that made them" />
      <div className="filters">
        <label>
          <span className="hidden">State</span>
          <select value={state} onChange={(event) => setState(event.target.value)}>
            {states.map((one) => (
              <option key={one} value={one}>
                {one.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
      </div>
      <List
        query={query}
        items={query.data}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No workspace is like that" command="helmr workspace create --sandbox NAME">
            Every run has one; you can also make one of your own:
          </Empty>
        }
        columns={[
          { head: "State", cell: (one) => <Status value={one.state} /> },
          {
            head: "Workspace",
            cell: (one) => <Id value={one.id} href={`/workspaces/${one.id}`} />,
          },
          { head: "Sandbox", cell: (one) => one.sandboxId },
          {
            head: "Mounted",
            cell: (one) =>
              one.mount ? <Status value={one.mount.state} /> : <span className="dim">–</span>,
          },
          {
            head: "External id",
            cell: (one) => one.externalId ?? <span className="dim">–</span>,
          },
          { head: "Tags", cell: (one) => one.tags.join(", ") },
          { head: "Changed", cell: (one) => <Time at={one.updatedAt.toISOString()} /> },
          {
            head: "Open",
            cell: (one) => <Link href={`/workspaces/${one.id}`}>files</Link>,
          },
        ]}
      />
    </>
  );
}
