// What runs, what waits for somebody, what failed, and on what.
import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { Counts, Deployment, Run, Worker } from "../api/types.ts";
import { useQuery } from "../app/query.ts";
import { Link } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Bars } from "../ui/chart.tsx";
import type { Bar } from "../ui/chart.tsx";
import { Empty, Id, PageHead, Section, Status } from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Time, durationText } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

const slots = 24;
const shown = 8;

/** The last runs by when they were made, in equal steps of time. */
function byTime(runs: Run[], now: number): { bars: Bar[]; stepMs: number } {
  const oldest = Math.min(
    now - 60_000 * slots,
    ...runs.map(({ created_at }) => Date.parse(created_at)),
  );
  const stepMs = Math.ceil((now - oldest + 1) / slots);
  const bars = Array.from({ length: slots }, (_, i): Bar => ({
    label: `${durationText(now - oldest - i * stepMs)} ago`,
    parts: ["succeeded", "failed", "waiting", "running"].map((kind) => ({ kind, value: 0 })),
  }));
  for (const run of runs) {
    const bar =
      bars[Math.min(slots - 1, Math.floor((Date.parse(run.created_at) - oldest) / stepMs))];
    const kind =
      run.status === "succeeded" || run.status === "waiting"
        ? run.status
        : run.finished_at
          ? "failed"
          : "running";
    const part = bar?.parts.find((one) => one.kind === kind);
    if (part) part.value++;
  }
  return { bars, stepMs };
}

function middle(values: number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

function Numbers({ counts }: { counts: Counts }): ReactNode {
  const cards: [string, number, string][] = [
    ["waiting for an answer", counts.waiting, "/approvals"],
    ["running", counts.running, "/runs?status=running"],
    ["queued", counts.queued, "/runs?status=queued"],
    ["failed", counts.failed, "/runs?status=failed"],
    ["succeeded", counts.succeeded, "/runs?status=succeeded"],
  ];
  return (
    <div className="cards">
      {cards.map(([label, value, href]) => (
        <Link key={label} className="card" href={href}>
          <b>{value}</b>
          <span>{label}</span>
        </Link>
      ))}
    </div>
  );
}

function Recent({ runs }: { runs: Run[] }): ReactNode {
  const { bars, stepMs } = byTime(runs, Date.now());
  const took = runs
    .filter(({ status }) => status === "succeeded")
    .map(({ active_duration_ms }) => active_duration_ms);
  const typical = middle(took);
  return (
    <>
      <Section
        title="Runs over time"
        aside={
          <span className="dim">
            {durationText(stepMs)} per bar
            {typical === undefined ? "" : ` · typical run ${durationText(typical)}`}
          </span>
        }
      >
        <Bars bars={bars} label="Runs by the time they were started and what became of them" />
      </Section>
      <Section title="Newest runs" aside={<Link href="/runs?status=all">All runs</Link>}>
        <RunTable runs={runs.slice(0, shown)} />
      </Section>
    </>
  );
}

function Workers(): ReactNode {
  const workers = useQuery("workers", () => get<{ workers: Worker[] }>("/workers"), 15_000);
  const list =
    workers.data?.workers.filter(({ state }) => state !== "lost" && state !== "disabled") ?? [];
  return (
    <Section title="Workers" aside={<Link href="/settings/workers">All workers</Link>}>
      {workers.error && <Trouble error={workers.error} retry={workers.refresh} />}
      {workers.data && list.length === 0 && (
        <Empty title="No worker is there" command="helmr worker">
          Runs stay queued until one comes.
        </Empty>
      )}
      <ul className="lines">
        {list.map((worker) => (
          <li key={worker.id}>
            <Status value={worker.state} />
            <span>{worker.resource_id}</span>
            <span className="dim">
              {worker.engine ?? "no engine"} · {worker.grade ?? "–"} · {worker.active_leases} of{" "}
              {worker.capabilities?.execution_slots ?? "?"} in use
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Deployments(): ReactNode {
  const { data, error, refresh } = useScoped<{ deployments: Deployment[] }>("/deployments", {
    limit: 5,
  });
  return (
    <Section title="Deployments" aside={<Link href="/deployments">All deployments</Link>}>
      {error && <Trouble error={error} retry={refresh} />}
      {data?.deployments.length === 0 && (
        <Empty title="Nothing is deployed here" command="helmr deploy" />
      )}
      <ul className="lines">
        {data?.deployments.map((one) => (
          <li key={one.id}>
            <Status value={one.status} />
            <Link href={`/deployments/${one.id}`}>{one.version}</Link>
            {one.is_current && <span className="tag">current</span>}
            <span className="dim">
              <Time at={one.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Waiting({ runs }: { runs: Run[] }): ReactNode {
  const waiting = runs.filter(({ pending_wait }) => pending_wait?.token_id);
  if (waiting.length === 0) return null;
  return (
    <Section title="Waiting for you" aside={<Link href="/approvals">Answer them</Link>}>
      <ul className="lines">
        {waiting.slice(0, shown).map((run) => (
          <li key={run.id}>
            <Link href={`/approvals#${run.pending_wait?.id}`}>
              {String(run.pending_wait?.metadata["prompt"] ?? run.task_id)}
            </Link>
            <span className="dim">
              <Id value={run.id} href={`/runs/${run.id}`} />{" "}
              <Time at={run.pending_wait?.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

export default function Overview(): ReactNode {
  const { project, environment } = useScope();
  const counts = useScoped<Counts>("/runs/counts");
  const recent = useScoped<{ runs: Run[] }>("/runs", { status: "all", limit: 200 });
  const waiting = useScoped<{ runs: Run[] }>("/runs", { status: "waiting", limit: 50 });
  const error = counts.error ?? recent.error;
  return (
    <>
      <PageHead title="Overview" lead={`${project.name} / ${environment.name}`} />
      {error && <Trouble error={error} retry={recent.refresh} />}
      {counts.data && <Numbers counts={counts.data} />}
      <div className="columns">
        <div>
          {recent.data?.runs.length === 0 ? (
            <Empty title="Nothing has run here yet" command="helmr run hello">
              Deploy a project with <code>helmr deploy</code>, then start a task:
            </Empty>
          ) : (
            recent.data && <Recent runs={recent.data.runs} />
          )}
        </div>
        <div>
          {waiting.data && <Waiting runs={waiting.data.runs} />}
          <Workers />
          <Deployments />
        </div>
      </div>
    </>
  );
}
