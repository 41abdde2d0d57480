// Who did what: the log that cannot be changed without being found out.
import { useState } from "react";
import type { ReactNode } from "react";
import { get } from "../../api/client.ts";
import type { AuditEntry } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { useSearch } from "../../app/router.tsx";
import { List } from "../../ui/list.tsx";
import { Empty, PageHead, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

interface Page {
  entries: AuditEntry[];
  next_cursor?: string | null;
}

export default function Audit(): ReactNode {
  const [action, setAction] = useSearch("action", "");
  const [actor, setActor] = useSearch("actor", "");
  const filter = { ...(action && { action }), ...(actor && { actor }) };
  const name = `audit ${JSON.stringify(filter)}`;
  const query = useQuery(name, () => get<Page>("/audit", { query: { ...filter, limit: 100 } }));
  const [older, setOlder] = useState<{ name: string; page: Page }>();
  const mine = older?.name === name ? older.page : undefined;
  const cursor = (mine ?? query.data)?.next_cursor;
  const more = useSubmit(async () => {
    const page = await get<Page>("/audit", {
      query: { ...filter, limit: 100, cursor: cursor as string },
    });
    setOlder({ name, page: { ...page, entries: [...(mine?.entries ?? []), ...page.entries] } });
  });
  return (
    <>
      <PageHead
        title="Audit log"
        lead={
          <>
            Each entry is bound to the one before it; <code>helmr audit verify</code> on the server
            checks the chain.
          </>
        }
      >
        <a className="button" href="/api/audit/export" download>
          Export
        </a>
      </PageHead>
      <div className="filters" role="search">
        <input
          type="search"
          aria-label="Action"
          placeholder="Action, such as secret.set"
          value={action}
          onChange={(event) => setAction(event.target.value)}
        />
        <input
          type="search"
          aria-label="Actor"
          placeholder="Actor's id"
          value={actor}
          onChange={(event) => setActor(event.target.value)}
        />
      </div>
      <List
        query={query}
        items={query.data && [...query.data.entries, ...(mine?.entries ?? [])]}
        keyOf={({ sequence }) => String(sequence)}
        empty={<Empty title="No entry is like that" />}
        columns={[
          { head: "#", cell: (entry) => entry.sequence },
          { head: "When", cell: (entry) => <Time at={entry.at} /> },
          {
            head: "Who",
            cell: (entry) => (
              <span title={entry.actor.id}>{entry.actor.name ?? entry.actor.type}</span>
            ),
          },
          { head: "What", cell: (entry) => <code>{entry.action}</code> },
          {
            head: "To what",
            cell: (entry) => <span title={entry.subject ?? ""}>{entry.subject ?? "–"}</span>,
          },
          { head: "Outcome", cell: (entry) => entry.outcome },
        ]}
      />
      {more.error && <Trouble error={more.error} />}
      {cursor && (
        <p>
          <button
            type="button"
            className="quiet"
            disabled={more.isBusy}
            onClick={() => more.submit()}
          >
            Older entries
          </button>
        </p>
      )}
    </>
  );
}
