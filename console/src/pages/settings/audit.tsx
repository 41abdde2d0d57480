// Who did what: the log that cannot be changed without being found out.
import { useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { AuditEntry } from "../../api/types.ts";
import { refreshAll, useQuery } from "../../app/query.ts";
import { useSearch } from "../../app/router.tsx";
import { List } from "../../ui/list.tsx";
import { Empty, PageHead, Status, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

interface Page {
  entries: AuditEntry[];
  next_cursor?: string | null;
}

interface Verdict {
  verified: boolean;
  entries?: number;
  problem?: string;
  has_checkpoint: boolean;
}

/** Reads the whole chain on the server, and says what was found. */
function Verify(): ReactNode {
  const [verdict, setVerdict] = useState<{ at: Date; found: Verdict }>();
  const { error, isBusy, submit } = useSubmit(async () => {
    const found = await send<Verdict>("POST", "/audit/verify", {});
    setVerdict({ at: new Date(), found });
    refreshAll("audit");
  });
  return (
    <section className="verdict" aria-label="The chain of the log">
      <button type="button" className="quiet" disabled={isBusy} onClick={() => submit()}>
        {isBusy ? "Verifying…" : "Verify the chain"}
      </button>
      <p role="status">
        {verdict?.found.verified && (
          <>
            <Status value="verified" /> {verdict.found.entries?.toLocaleString("en")} entries are as
            they were written, <Time at={verdict.at.toISOString()} />
            {!verdict.found.has_checkpoint &&
              "; there is no checkpoint, so a log that was rewound as a whole would not be found"}
          </>
        )}
        {verdict?.found.verified === false && (
          <>
            <Status value="broken" /> <strong className="problem">{verdict.found.problem}</strong>
          </>
        )}
        {!verdict && (
          <span className="dim">
            Each entry is bound to the one before it: none can be changed, removed or cut off
            unseen.
          </span>
        )}
      </p>
      {error && <Trouble error={error} />}
    </section>
  );
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
      <PageHead title="Audit log" lead="Who did what, and who was refused it">
        <a className="button" href="/api/audit/export" download>
          Export
        </a>
      </PageHead>
      <Verify />
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
          placeholder="Actor, by id or name"
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
          { head: "Outcome", cell: (entry) => <Status value={entry.outcome} /> },
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
