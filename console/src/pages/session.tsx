// One session: what went in, what came out and the runs between, in order, and a box to say more.
import { useEffect, useMemo, useRef, useState } from "react";
import type { ReactNode } from "react";
import { client, get, send } from "../api/client.ts";
import type { Place } from "../api/client.ts";
import type { Run, Session, StreamInfo, StreamRecord } from "../api/types.ts";
import { Link, useParam, useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Asked } from "../ui/form.tsx";
import { Confirm, Empty, Facts, Id, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Time, durationText } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

/* A browser has few connections to one host: these many streams come by themselves, and the others
 * are asked for. */
const liveStreams = 3;
const askMs = 2000;

interface Said extends StreamRecord {
  stream: string;
  isInput: boolean;
}

/** Records of one stream as they come, until `stop`. */
async function follow(
  path: string,
  isLive: boolean,
  options: Place & { signal: AbortSignal },
  take: (records: StreamRecord[]) => void,
): Promise<void> {
  if (isLive) {
    for await (const { data } of client.events<StreamRecord>(path, options)) take([data]);
    return;
  }
  for (let cursor = 0; !options.signal.aborted;) {
    const page = await get<{ records: StreamRecord[] }>(path, {
      ...options,
      query: { cursor, limit: 500 },
    });
    if (page.records.length > 0) take(page.records);
    cursor = page.records.at(-1)?.sequence ?? cursor;
    await new Promise((resolve) => setTimeout(resolve, askMs));
  }
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
    for (const [i, path] of names.split(" ").entries()) {
      if (path === "") continue;
      const [direction, name] = path.split("/") as [string, string];
      const stream = decodeURIComponent(name);
      const options = { projectId, environmentId, signal: stop.signal };
      follow(`/sessions/${sessionId}/${path}`, i < liveStreams, options, (come) =>
        setRecords((before) =>
          [
            ...before,
            ...come.map((one) => ({ ...one, stream, isInput: direction === "inputs" })),
          ].toSorted((a, b) => a.created_at.localeCompare(b.created_at)),
        ),
      ).catch(() => undefined);
    }
    return () => stop.abort();
  }, [sessionId, names, projectId, environmentId]);
  return records;
}

type Moment = { at: string; key: string } & (
  | { record: Said }
  | { run: Run; isEnd: boolean }
);

/** Records and the beginnings and ends of runs, by time. */
function momentsOf(records: Said[], runs: Run[]): Moment[] {
  const moments: Moment[] = records.map((record) => ({
    at: record.created_at,
    key: record.id,
    record,
  }));
  for (const run of runs) {
    moments.push({ at: run.created_at, key: `${run.id} begins`, run, isEnd: false });
    if (run.finished_at)
      moments.push({ at: run.finished_at, key: `${run.id} ends`, run, isEnd: true });
  }
  return moments.toSorted((a, b) => a.at.localeCompare(b.at));
}

/** Words as words; anything else as JSON. */
function wordsOf(data: unknown): string {
  if (typeof data === "string") return data;
  const { text, ...rest } = (data ?? {}) as Record<string, unknown>;
  if (typeof text === "string" && Object.keys(rest).length === 0) return text;
  return JSON.stringify(data, null, 2);
}

function RunMark({ run, isEnd }: { run: Run; isEnd: boolean }): ReactNode {
  const turn = run.turn_index + 1;
  return (
    <li className="mark">
      <Link href={`/runs/${run.id}`}>
        Run {turn} {isEnd ? run.status : "begins"}
      </Link>
      <span className="dim">
        {isEnd && run.started_at && run.finished_at
          ? `after ${durationText(Date.parse(run.finished_at) - Date.parse(run.started_at))} · `
          : ""}
        <Time at={isEnd ? run.finished_at : run.created_at} />
      </span>
    </li>
  );
}

function SayMore({ session, streams }: { session: Session; streams: StreamInfo[] }): ReactNode {
  const { place } = useScope();
  const inputs = streams.filter(({ direction }) => direction === "input");
  const [stream, setStream] = useState("");
  const [text, setText] = useState("");
  const name = stream || inputs[0]?.name || "";
  const { error, isBusy, submit } = useSubmit(async () => {
    if (text.trim() === "") return;
    let data: unknown = text;
    try {
      data = JSON.parse(text);
    } catch {
      /* Words are a string. */
    }
    const path = `/sessions/${session.id}/inputs/${encodeURIComponent(name)}`;
    await send("POST", path, { data }, place);
    setText("");
  });
  return (
    <form onSubmit={submit} className="say">
      {inputs.length === 1 ? null : (
        <Asked label="Stream">
          {(props) =>
            inputs.length > 1 ? (
              <select {...props} value={name} onChange={(event) => setStream(event.target.value)}>
                {inputs.map((one) => (
                  <option key={one.id}>{one.name}</option>
                ))}
              </select>
            ) : (
              <input
                {...props}
                required
                value={stream}
                onChange={(event) => setStream(event.target.value)}
              />
            )
          }
        </Asked>
      )}
      <Asked
        label={inputs.length === 1 ? `Say more to ${name}` : "Say more"}
        hint="JSON, or words as a string; Ctrl Enter sends"
      >
        {(props) => (
          <textarea
            {...props}
            rows={3}
            required
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
        )}
      </Asked>
      <button disabled={isBusy}>Send</button>
      {error && <Trouble error={error} />}
    </form>
  );
}

/** The newest stays in sight for whoever has not scrolled up. */
function useFollowed(n: number) {
  const box = useRef<HTMLOListElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [n]);
  return {
    ref: box,
    onScroll: () => {
      const { scrollTop, scrollHeight, clientHeight } = box.current as HTMLOListElement;
      isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 40;
    },
  };
}

function Conversation({
  session,
  streams,
  runs,
}: {
  session: Session;
  streams: StreamInfo[] | undefined;
  runs: Run[];
}): ReactNode {
  const { may } = useScope();
  const records = useRecords(session.id, streams);
  const [only, setOnly] = useSearch("stream", "");
  const moments = useMemo(
    () =>
      momentsOf(
        records.filter(({ stream }) => only === "" || stream === only),
        runs,
      ),
    [records, runs, only],
  );
  const followed = useFollowed(moments.length);
  const names = [...new Set(streams?.map(({ name }) => name))].toSorted();
  return (
    <Section
      title="Conversation"
      aside={
        names.length > 1 && (
          <span className="chips" role="group" aria-label="Streams">
            {["", ...names].map((name) => (
              <button
                key={name}
                type="button"
                className="quiet"
                aria-pressed={only === name}
                onClick={() => setOnly(name)}
              >
                {name === "" ? "all streams" : name}
              </button>
            ))}
          </span>
        )
      }
    >
      {records.length === 0 && <Empty title="Nothing was said yet" />}
      {moments.length > 0 && (
        <ol className="said-list" tabIndex={0} aria-label="Everything that was said" {...followed}>
          {moments.map((moment) =>
            "run" in moment ? (
              <RunMark key={moment.key} run={moment.run} isEnd={moment.isEnd} />
            ) : (
              <li key={moment.key} className={moment.record.isInput ? "in" : "out"}>
                <span className="dim">
                  <span aria-hidden="true">{moment.record.isInput ? "→" : "←"}</span>{" "}
                  {moment.record.isInput ? "to" : "from"} {moment.record.stream} ·{" "}
                  <Time at={moment.record.created_at} />
                </span>
                <pre>{wordsOf(moment.record.data)}</pre>
              </li>
            ),
          )}
        </ol>
      )}
      {session.status === "open" && may("session-input:send") && (
        <SayMore session={session} streams={streams ?? []} />
      )}
    </Section>
  );
}

export default function SessionPage(): ReactNode {
  const id = useParam("session");
  const { place, may } = useScope();
  const { data: session, error, refresh } = useScoped<Session>(`/sessions/${id}`);
  const streams = useScoped<{ streams: StreamInfo[] }>(`/sessions/${id}/streams`);
  const runs = useScoped<{ runs: Run[] }>(`/sessions/${id}/runs`);
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
        lead={session.external_id ?? <code>{session.id}</code>}
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
              isPlain
              label="Cancel"
              question="Its run is stopped, too."
              act={() => send("POST", `/sessions/${id}/cancel`, {}, place)}
            />
          </>
        )}
      </PageHead>
      <Facts
        rows={[
          ["Session", session.external_id && <code>{session.id}</code>],
          ["Activity", session.activity.replaceAll("_", " ")],
          [
            "Workspace",
            <Id value={session.workspace_id} href={`/workspaces/${session.workspace_id}`} />,
          ],
          ["Tags", session.tags.join(", ")],
          ["Created", <Time at={session.created_at} />],
          ["Expires", session.expires_at && <Time at={session.expires_at} />],
        ]}
      />
      <Conversation
        session={session}
        streams={streams.data?.streams}
        runs={runs.data?.runs ?? []}
      />
      {runs.data && (
        <Section title="Runs">
          <RunTable runs={runs.data.runs} />
        </Section>
      )}
    </>
  );
}
