// One run: its life, what it printed, what it was given and what came of it.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client, send } from "../api/client.ts";
import type { Run, RunEvent, Wait } from "../api/types.ts";
import { Link, navigate, useParam, useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { useRunEvents } from "../app/run_events.ts";
import { Answer, promptOf } from "../ui/answer.tsx";
import { DiffView } from "../ui/diff_view.tsx";
import { LogLines } from "../ui/log_lines.ts";
import { LogView } from "../ui/log_view.tsx";
import {
  Confirm,
  Copy,
  Empty,
  Facts,
  Id,
  Json,
  PageHead,
  Section,
  Status,
  useSubmit,
} from "../ui/parts.tsx";
import { Time, durationText } from "../ui/time.tsx";
import { Timeline } from "../ui/timeline.tsx";
import { Trouble } from "../ui/trouble.tsx";

const tabs = ["Log", "Events", "Waits", "Changes", "Data"] as const;

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** Everything the run has printed and prints, from the beginning. */
function useLog(runId: string): LogLines {
  const {
    place: { projectId, environmentId },
  } = useScope();
  const [log, setLog] = useState(() => new LogLines());
  useEffect(() => {
    const stop = new AbortController();
    const mine = new LogLines();
    setLog(mine);
    const read = async (): Promise<void> => {
      const records = client.events<{ stream: "stdout" | "stderr"; content_base64: string }>(
        `/runs/${runId}/logs`,
        { projectId, environmentId, signal: stop.signal },
      );
      for await (const { data } of records) mine.add(data.stream, bytesOf(data.content_base64));
      mine.end();
    };
    read().catch(() => undefined);
    return () => stop.abort();
  }, [runId, projectId, environmentId]);
  return log;
}

function Actions({ run }: { run: Run }): ReactNode {
  const { place, may } = useScope();
  const again = useSubmit(async () => {
    const made = await send<Run>(
      "POST",
      "/runs",
      { task_id: run.task_id, payload: run.payload },
      place,
    );
    navigate(`/runs/${made.id}`);
  });
  const fork = useSubmit(async () => {
    const made = await send<{ run: Run }>("POST", `/runs/${run.id}/fork`, {}, place);
    navigate(`/runs/${made.run.id}`);
  });
  const failed = again.error ?? fork.error;
  return (
    <>
      {may("runs:create") && (
        <button
          type="button"
          className="quiet"
          disabled={again.isBusy}
          onClick={() => again.submit()}
        >
          Run again
        </button>
      )}
      {may("runs:create") && run.pending_wait && (
        <button
          type="button"
          className="quiet"
          disabled={fork.isBusy}
          onClick={() => fork.submit()}
        >
          Fork here
        </button>
      )}
      {may("runs:manage") && !run.finished_at && (
        <Confirm
          label="Cancel the run"
          question="It is stopped where it stands."
          act={() =>
            send("POST", `/runs/${run.id}/cancel`, { reason: "cancelled in the console" }, place)
          }
        />
      )}
      {failed && <Trouble error={failed} />}
    </>
  );
}

function Fault({ run }: { run: Run }): ReactNode {
  if (!run.error) return null;
  const stack = run.error.details?.["stack"];
  return (
    <div className="trouble fault">
      <strong>{run.error.message}</strong>
      <span className="dim">
        {run.error.layer} · {run.error.failure_kind}
      </span>
      {typeof stack === "string" && <pre tabIndex={0}>{stack}</pre>}
    </div>
  );
}

function Waits({ runId }: { runId: string }): ReactNode {
  const { data, error, refresh } = useScoped<{ waits: Wait[] }>(`/runs/${runId}/waits`);
  if (error) return <Trouble error={error} retry={refresh} />;
  if (data?.waits.length === 0) return <Empty title="It has waited for nothing" />;
  return (
    <ul className="lines">
      {data?.waits.map((wait) => (
        <li key={wait.id}>
          <Status value={wait.condition} />
          <span>{wait.kind === "timer" ? "a time" : promptOf(wait)}</span>
          <span className="dim">
            {wait.suspension} ·{" "}
            {wait.settled_at ? (
              `waited ${durationText(Date.parse(wait.settled_at) - Date.parse(wait.created_at))}`
            ) : (
              <Time at={wait.created_at} />
            )}
            {wait.checkpoint &&
              ` · checkpoint ${wait.checkpoint.state}, ${(wait.checkpoint.size_bytes / 1e6).toFixed(1)} MB`}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Events({ events }: { events: RunEvent[] }): ReactNode {
  return (
    <ol className="events">
      {events.map((event) => (
        <li key={event.id} className={`is-${event.severity}`}>
          <Time at={event.at} />
          <b>{event.kind}</b>
          <code>{JSON.stringify(event.attributes).slice(0, 500)}</code>
        </li>
      ))}
    </ol>
  );
}

function About({ run }: { run: Run }): ReactNode {
  return (
    <Facts
      rows={[
        [
          "Run",
          <>
            <code>{run.id}</code> <Copy text={run.id} />
          </>,
        ],
        [
          "Deployment",
          <Link href={`/deployments/${run.deployment_id}`}>{run.deployment_version}</Link>,
        ],
        ["Session", <Id value={run.session_id} href={`/sessions/${run.session_id}`} />],
        ["Workspace", <Id value={run.workspace_id} href={`/workspaces/${run.workspace_id}`} />],
        ["Isolation", run.isolation && `${run.isolation.engine} · ${run.isolation.grade}`],
        ["Attempt", run.attempt_number ?? undefined],
        ["Active time", durationText(run.active_duration_ms)],
        ["Queue", run.queue],
        ["Created", <Time at={run.created_at} />],
        ["Exit code", run.exit_code ?? undefined],
        [
          "Turn",
          run.turn_index > 0 ? (
            <>
              {run.turn_index}{" "}
              {run.previous_run_id && (
                <>
                  after <Id value={run.previous_run_id} href={`/runs/${run.previous_run_id}`} />
                </>
              )}
            </>
          ) : undefined,
        ],
        [
          "Forked from",
          run.forked_from && (
            <Id value={run.forked_from.run_id} href={`/runs/${run.forked_from.run_id}`} />
          ),
        ],
        ["Secrets", run.secret_names.join(", ")],
        ["Tags", run.tags.join(", ")],
        ["Queued because", run.queued_reason?.replaceAll("_", " ")],
      ]}
    />
  );
}

export default function RunPage(): ReactNode {
  const id = useParam("run");
  const { data: run, error, refresh } = useScoped<Run>(`/runs/${id}`);
  const [tab, setTab] = useSearch("tab", "Log");
  const log = useLog(id);
  const events = useRunEvents(id);
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!run) return null;
  return (
    <>
      <PageHead
        title={
          <>
            {run.task_id} <Status value={run.status} />
          </>
        }
      >
        <Actions run={run} />
      </PageHead>
      <Timeline run={run} events={events} />
      {run.pending_wait?.token_id && (
        <Section title={promptOf(run.pending_wait)}>
          <Answer wait={run.pending_wait} done={refresh} />
        </Section>
      )}
      <Fault run={run} />
      <About run={run} />
      <div className="tabs" role="tablist" aria-label="Parts of the run">
        {tabs.map((one) => (
          <button
            key={one}
            type="button"
            role="tab"
            aria-selected={tab === one}
            onClick={() => setTab(one)}
          >
            {one}
          </button>
        ))}
      </div>
      {tab === "Log" && (
        <LogView log={log} name={`${run.task_id}-${run.id}.log`} isLive={!run.finished_at} />
      )}
      {tab === "Events" && <Events events={events} />}
      {tab === "Waits" && <Waits runId={id} />}
      {tab === "Changes" && <DiffView path={`/runs/${id}/diff`} />}
      {tab === "Data" && (
        <>
          <Section title="Payload">
            <Json value={run.payload} />
          </Section>
          {run.output !== undefined && (
            <Section title="Output">
              <Json value={run.output} />
            </Section>
          )}
          <Section title="Metadata">
            <Json value={run.metadata} />
          </Section>
        </>
      )}
    </>
  );
}
