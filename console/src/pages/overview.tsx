// What runs, what waits for somebody, what failed, and on what.
import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { Counts, Deployment, Run, Token, Worker } from "../api/types.ts";
import { useQuery } from "../app/query.ts";
import { Link } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { promptOf } from "../ui/answer.tsx";
import { ChartCard } from "../ui/chart.tsx";
import { Empty, Id, PageHead, Section, Status } from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { counted, middle, slotsOf } from "../ui/slots.ts";
import { Time, durationText, useNow } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

const shown = 8;
const shownFailures = 4;
const outcomes = ["succeeded", "failed", "waiting", "running"] as const;
const answers = ["answered", "open", "unanswered"] as const;

function Numbers({ counts }: { counts: Counts }): ReactNode {
  const cards: [string, number, string, string][] = [
    ["waiting", counts.waiting, "/approvals", "wait"],
    ["running", counts.running, "/runs?status=running", "accent"],
    ["queued", counts.queued, "/runs?status=queued", "cold"],
    ["failed", counts.failed, "/runs?status=failed", "bad"],
    ["succeeded", counts.succeeded, "/runs?status=succeeded", "good"],
  ];
  return (
    <div className="cards">
      {cards.map(([label, value, href, tone]) => (
        <Link key={label} className={`card${value > 0 ? ` tone-${tone}` : ""}`} href={href}>
          <b>{value.toLocaleString("en")}</b>
          <span>{label}</span>
        </Link>
      ))}
    </div>
  );
}

const outcomeOf = (run: Run): string =>
  run.status === "succeeded" || run.status === "waiting"
    ? run.status
    : run.finished_at
      ? "failed"
      : "running";

const answerOf = ({ status }: Token): string =>
  status === "completed" ? "answered" : status === "pending" ? "open" : "unanswered";

function Charts({ runs, tokens }: { runs: Run[]; tokens: Token[] | undefined }): ReactNode {
  const now = useNow(15_000);
  const made = slotsOf(runs, ({ created_at }) => Date.parse(created_at), now);
  const over = runs.filter(({ finished_at }) => finished_at);
  const done = slotsOf(over, ({ finished_at }) => Date.parse(finished_at ?? ""), now);
  const asked = slotsOf(tokens ?? [], ({ created_at }) => Date.parse(created_at), now);
  const typical = middle(over.map(({ active_duration_ms }) => active_duration_ms));
  const waits = (tokens ?? []).flatMap(({ completed_at, created_at }) =>
    completed_at ? [Date.parse(completed_at) - Date.parse(created_at)] : [],
  );
  const patience = middle(waits);
  const durations = done.parts.map(({ label, items }) => {
    const value = middle(items.map(({ active_duration_ms }) => active_duration_ms)) ?? 0;
    const words = items.length > 0 ? `${durationText(value)}, ${items.length} runs` : "none ended";
    return { label, words, parts: [{ kind: "median", value }] };
  });
  return (
    <div className="charts">
      <ChartCard
        title="Runs"
        number={runs.length.toLocaleString("en")}
        words={made.span}
        bars={counted(made, outcomes, outcomeOf)}
        legend={outcomes}
      />
      {tokens && (
        <ChartCard
          title="Waits for people"
          number={patience === undefined ? "–" : durationText(patience)}
          words={`until an answer, typically · ${asked.span}`}
          bars={counted(asked, answers, answerOf)}
          legend={answers}
        />
      )}
      <ChartCard
        title="Durations"
        number={typical === undefined ? "–" : durationText(typical)}
        words={`of work in a typical run · ${done.span}`}
        bars={durations}
        legend={["median"]}
      />
    </div>
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
            <span className="grow">
              <b>{worker.resource_id}</b>
              <span className="dim">
                {worker.engine ?? "no engine"} · {worker.grade ?? "–"} · {worker.active_leases} of{" "}
                {worker.capabilities?.execution_slots ?? "?"} slots in use
              </span>
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
            <span className="dim end">
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
            <span className="grow">
              <Link href={`/approvals#${run.pending_wait?.id}`}>
                {run.pending_wait && promptOf(run.pending_wait)}
              </Link>
              <span className="dim">
                {run.task_id} · <Id value={run.id} href={`/runs/${run.id}`} />
              </span>
            </span>
            <span className="dim end">
              <Time at={run.pending_wait?.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Failed(): ReactNode {
  const { data } = useScoped<{ runs: Run[] }>("/runs", { status: "failed", limit: shownFailures });
  if (!data || data.runs.length === 0) return null;
  return (
    <Section title="Failed lately" aside={<Link href="/runs?status=failed">All failed</Link>}>
      <ul className="lines">
        {data.runs.map((run) => (
          <li key={run.id}>
            <span className="grow">
              <Link href={`/runs/${run.id}`}>{run.task_id}</Link>
              <span className="fault-words">{run.error?.message}</span>
            </span>
            <span className="dim end">
              <Time at={run.finished_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Running(): ReactNode {
  const { data } = useScoped<{ runs: Run[] }>("/runs", { status: "running", limit: shown });
  if (!data || data.runs.length === 0) return null;
  return (
    <Section title="Running now" aside={<Link href="/runs?status=running">All running</Link>}>
      <RunTable runs={data.runs} />
    </Section>
  );
}

export default function Overview(): ReactNode {
  const { project, environment, may } = useScope();
  const counts = useScoped<Counts>("/runs/counts");
  const recent = useScoped<{ runs: Run[] }>("/runs", { status: "all", limit: 200 });
  const waiting = useScoped<{ runs: Run[] }>("/runs", { status: "waiting", limit: 50 });
  const tokens = useScoped<{ tokens: Token[] }>(may("tokens:read") ? "/tokens" : undefined, {
    limit: 200,
  });
  const error = counts.error ?? recent.error;
  const isNew = recent.data?.runs.length === 0;
  return (
    <div className="overview">
      <PageHead title="Overview" lead={`${project.name} / ${environment.name}`} />
      {error && <Trouble error={error} retry={recent.refresh} />}
      {counts.data && <Numbers counts={counts.data} />}
      {recent.data && !isNew && <Charts runs={recent.data.runs} tokens={tokens.data?.tokens} />}
      <div className="columns">
        <div>
          <Running />
          {isNew ? (
            <Section title="Newest runs">
              <Empty title="Nothing has run here yet" command="helmr run hello">
                Deploy a project with <code>helmr deploy</code>, then start a task:
              </Empty>
            </Section>
          ) : (
            recent.data && (
              <Section title="Newest runs" aside={<Link href="/runs">All runs</Link>}>
                <RunTable runs={recent.data.runs.slice(0, shown)} />
              </Section>
            )
          )}
        </div>
        <div>
          {waiting.data && <Waiting runs={waiting.data.runs} />}
          <Failed />
          <Workers />
          <Deployments />
        </div>
      </div>
    </div>
  );
}
