// One run: its life, what it printed, what it was given and what came of it.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client } from "../api/client.ts";
import type { Run } from "../api/types.ts";
import { useParam, useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { useRunEvents } from "../app/run_events.ts";
import { Answer, promptOf } from "../ui/answer.tsx";
import { bytesOf } from "../ui/bytes.ts";
import { DiffView } from "../ui/diff_view.tsx";
import { LogLines } from "../ui/log_lines.ts";
import { LogView } from "../ui/log_view.tsx";
import { Json, PageHead, Section, Status, Tabs } from "../ui/parts.tsx";
import { Timeline } from "../ui/timeline.tsx";
import { Trouble } from "../ui/trouble.tsx";
import { About, Fault } from "./run/about.tsx";
import { Actions } from "./run/actions.tsx";
import { Events } from "./run/events.tsx";
import { Lineage } from "./run/lineage.tsx";
import { Waits } from "./run/waits.tsx";

const tabs = ["Log", "Events", "Waits", "Changes", "Data", "Lineage"] as const;

/* A long log comes faster than it can be drawn; after so much of it the page may do something else. */
const sliceMs = 10;
const nextTurn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

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
      let since = performance.now();
      for await (const { data } of records) {
        mine.add(data.stream, bytesOf(data.content_base64));
        if (performance.now() - since < sliceMs) continue;
        await nextTurn();
        since = performance.now();
      }
      mine.end();
    };
    read().catch(() => undefined);
    return () => stop.abort();
  }, [runId, projectId, environmentId]);
  return log;
}

function Data({ run }: { run: Run }): ReactNode {
  return (
    <div className="columns even">
      <Section title="Payload">
        <Json value={run.payload} />
      </Section>
      <Section title="Output">
        {run.output === undefined ? (
          <p className="dim">
            {run.finished_at ? "It returned nothing." : "It has not returned yet."}
          </p>
        ) : (
          <Json value={run.output} />
        )}
      </Section>
      {run.error && (
        <Section title="Error">
          <Json value={run.error} />
        </Section>
      )}
      <Section title="Metadata">
        <Json value={run.metadata} />
      </Section>
    </div>
  );
}

export default function RunPage(): ReactNode {
  const id = useParam("run");
  const { data: run, error, refresh } = useScoped<Run>(`/runs/${id}`);
  const [tab, setTab] = useSearch("tab", "Log");
  const log = useLog(id);
  const events = useRunEvents(id);
  if (error && !run) return <Trouble error={error} retry={refresh} />;
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
        <section className="asks" aria-label="Waiting for an answer">
          <h2>{promptOf(run.pending_wait)}</h2>
          <Answer key={run.pending_wait.id} wait={run.pending_wait} done={refresh} />
        </section>
      )}
      <Fault run={run} />
      <About run={run} />
      <Tabs label="Parts of the run" names={tabs} value={tab} choose={setTab}>
        {tab === "Log" && (
          <LogView log={log} name={`${run.task_id}-${run.id}.log`} isLive={!run.finished_at} />
        )}
        {tab === "Events" && <Events events={events} />}
        {tab === "Waits" && <Waits run={run} />}
        {tab === "Changes" && <DiffView path={`/runs/${id}/diff`} />}
        {tab === "Data" && <Data run={run} />}
        {tab === "Lineage" && <Lineage run={run} events={events} />}
      </Tabs>
    </>
  );
}
