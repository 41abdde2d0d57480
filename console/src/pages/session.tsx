// One session: what went in and what came out, in order, and a box to say more.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client, send } from "../api/client.ts";
import type { Run, Session, StreamInfo, StreamRecord } from "../api/types.ts";
import { useParam } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import {
  Confirm,
  Empty,
  Facts,
  Field,
  Id,
  PageHead,
  Section,
  Status,
  useSubmit,
} from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

interface Said extends StreamRecord {
  stream: string;
  isInput: boolean;
}

/** Every record of every stream, merged by time. */
function useRecords(sessionId: string, streams: StreamInfo[] | undefined): Said[] {
  const {
    place: { projectId, environmentId },
  } = useScope();
  const [records, setRecords] = useState<Said[]>([]);
  const names =
    streams
      ?.map(({ direction, name }) => `${direction}s/${encodeURIComponent(name)}`)
      .toSorted()
      .join(" ") ?? "";
  useEffect(() => {
    const stop = new AbortController();
    setRecords([]);
    const follow = async (path: string): Promise<void> => {
      const [direction, name] = path.split("/") as [string, string];
      for await (const { data } of client.events<StreamRecord>(`/sessions/${sessionId}/${path}`, {
        projectId,
        environmentId,
        signal: stop.signal,
      }))
        setRecords((before) =>
          [
            ...before,
            { ...data, stream: decodeURIComponent(name), isInput: direction === "inputs" },
          ].toSorted((a, b) => a.created_at.localeCompare(b.created_at)),
        );
    };
    for (const path of names.split(" ")) if (path !== "") follow(path).catch(() => undefined);
    return () => stop.abort();
  }, [sessionId, names, projectId, environmentId]);
  return records;
}

function SayMore({ session, streams }: { session: Session; streams: StreamInfo[] }): ReactNode {
  const { place } = useScope();
  const inputs = streams.filter(({ direction }) => direction === "input");
  const [stream, setStream] = useState("");
  const [text, setText] = useState("");
  const name = stream || inputs[0]?.name || "";
  const { error, isBusy, submit } = useSubmit(async () => {
    let data: unknown = text;
    try {
      data = JSON.parse(text);
    } catch {
      /* Words are a string. */
    }
    await send(
      "POST",
      `/sessions/${session.id}/inputs/${encodeURIComponent(name)}`,
      { data },
      place,
    );
    setText("");
  });
  if (session.status !== "open") return null;
  return (
    <form onSubmit={submit} className="say">
      <Field label="Stream">
        {(id) => (
          <input
            id={id}
            list={`${id}-names`}
            required
            value={name}
            onChange={(event) => setStream(event.target.value)}
          />
        )}
      </Field>
      <Field label="Input" hint="JSON, or words as a string">
        {(id) => (
          <textarea
            id={id}
            rows={2}
            required
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
        )}
      </Field>
      <button disabled={isBusy}>Send</button>
      {error && <Trouble error={error} />}
    </form>
  );
}

export default function SessionPage(): ReactNode {
  const id = useParam("session");
  const { place, may } = useScope();
  const { data: session, error, refresh } = useScoped<Session>(`/sessions/${id}`);
  const streams = useScoped<{ streams: StreamInfo[] }>(`/sessions/${id}/streams`);
  const runs = useScoped<{ runs: Run[] }>(`/sessions/${id}/runs`);
  const records = useRecords(id, streams.data?.streams);
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!session) return null;
  return (
    <>
      <PageHead
        title={
          <>
            {session.task_id} <Status value={session.status} />
          </>
        }
        lead={session.external_id ?? undefined}
      >
        {may("runs:manage") && session.status === "open" && (
          <>
            {session.can_close && (
              <Confirm
                isPlain
                label="Close"
                question="No more input is taken."
                act={() => send("POST", `/sessions/${id}/close`, {}, place)}
              />
            )}
            <Confirm
              label="Cancel"
              question="Its run is stopped, too."
              act={() => send("POST", `/sessions/${id}/cancel`, {}, place)}
            />
          </>
        )}
      </PageHead>
      <Facts
        rows={[
          ["Session", <code>{session.id}</code>],
          ["Activity", session.activity.replaceAll("_", " ")],
          [
            "Workspace",
            <Id value={session.workspace_id} href={`/workspaces/${session.workspace_id}`} />,
          ],
          ["Created", <Time at={session.created_at} />],
          ["Expires", session.expires_at && <Time at={session.expires_at} />],
        ]}
      />
      <Section title="Conversation">
        {records.length === 0 ? (
          <Empty title="Nothing was said yet" />
        ) : (
          <ol className="said-list">
            {records.map((record) => (
              <li key={record.id} className={record.isInput ? "in" : "out"}>
                <span className="dim">
                  {record.isInput ? "→" : "←"} {record.stream} · <Time at={record.created_at} />
                </span>
                <pre tabIndex={0}>
                  {typeof record.data === "string"
                    ? record.data
                    : JSON.stringify(record.data, null, 2)}
                </pre>
              </li>
            ))}
          </ol>
        )}
        {may("session-input:send") && (
          <SayMore session={session} streams={streams.data?.streams ?? []} />
        )}
      </Section>
      {runs.data && (
        <Section title="Runs">
          <RunTable runs={runs.data.runs} />
        </Section>
      )}
    </>
  );
}
