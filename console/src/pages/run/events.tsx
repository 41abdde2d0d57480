// Everything that happened to the run, and when.
import { useState } from "react";
import type { ReactNode } from "react";
import type { RunEvent } from "../../api/types.ts";
import { Room, useRowsInView } from "../../ui/rows_in_view.tsx";
import { Empty } from "../../ui/parts.tsx";
import { durationText } from "../../ui/time.tsx";

function wordsOf(attributes: Record<string, unknown>): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" · ");
}

export function Events({ events }: { events: RunEvent[] }): ReactNode {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string>();
  const wanted = text.trim().toLowerCase();
  const shown =
    wanted === ""
      ? events
      : events.filter((event) =>
          `${event.kind} ${JSON.stringify(event.attributes)}`.toLowerCase().includes(wanted),
        );
  const { box, first, last, roomBefore, roomAfter } = useRowsInView(shown.length);
  const begin = Date.parse(events[0]?.at ?? "");
  const detail = events.find(({ id }) => id === chosen);
  return (
    <>
      <div className="filters">
        <input
          type="search"
          aria-label="Search in the events"
          placeholder="Kind or attribute…"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <span className="dim" role="status">
          {shown.length.toLocaleString("en")} events
        </span>
      </div>
      {detail && (
        <div className="json event-detail">
          <button type="button" className="quiet" onClick={() => setChosen(undefined)}>
            Close
          </button>
          <pre tabIndex={0}>{JSON.stringify(detail, null, 2)}</pre>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty title="No event is like that" />
      ) : (
        <div className="table" tabIndex={0}>
          <table className="events" aria-rowcount={shown.length + 1}>
            <thead>
              <tr>
                <th className="col-after">After</th>
                <th className="col-kind">Event</th>
                <th>What</th>
              </tr>
            </thead>
            <tbody ref={box}>
              <Room px={roomBefore} />
              {shown.slice(first, last).map((event) => (
                <tr key={event.id} data-row className={`is-${event.severity}`}>
                  <td className="col-after dim">
                    <time dateTime={event.at} title={new Date(event.at).toLocaleString()}>
                      {durationText(Date.parse(event.at) - begin)}
                    </time>
                  </td>
                  <td className="col-kind">
                    <button
                      type="button"
                      className="name"
                      aria-expanded={event.id === chosen}
                      onClick={() => setChosen(event.id === chosen ? undefined : event.id)}
                    >
                      {event.kind}
                    </button>
                  </td>
                  <td className="dim">{wordsOf(event.attributes).slice(0, 500)}</td>
                </tr>
              ))}
              <Room px={roomAfter} />
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
