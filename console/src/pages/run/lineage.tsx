// Where the run comes from and what came of it: attempts, the turns of its session, forks.
import type { ReactNode } from "react";
import type { Run, RunEvent } from "../../api/types.ts";
import { Link } from "../../app/router.tsx";
import { useScoped } from "../../app/scope.tsx";
import { attemptsOf } from "../../ui/life.ts";
import type { Attempt } from "../../ui/life.ts";
import { Id, Section, Status } from "../../ui/parts.tsx";
import { Time, durationText } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

function AttemptRow({ attempt }: { attempt: Attempt }): ReactNode {
  const { number, from, to, outcome, leases, retryAfterMs } = attempt;
  return (
    <li>
      <Status value={outcome} />
      <span className="grow">
        <b>Attempt {number}</b>
        <span className="dim">
          <Time at={from} />
          {to && ` · took ${durationText(Date.parse(to) - Date.parse(from))}`}
          {retryAfterMs !== undefined && ` · tried again after ${durationText(retryAfterMs)}`}
        </span>
        {leases.map((lease) => (
          <span key={lease.id} className="dim">
            {lease.start} on {lease.engine} in {durationText(lease.ms)}
            {lease.outcome && `, ${lease.outcome.replaceAll("_", " ")}`} · worker{" "}
            <code title={lease.worker}>{lease.worker.slice(-12)}</code>
          </span>
        ))}
      </span>
    </li>
  );
}

function Other({ id, words }: { id: string; words: string }): ReactNode {
  const { data, error } = useScoped<Run>(`/runs/${id}`);
  return (
    <li>
      {data && <Status value={data.status} />}
      <span className="dim">{words}</span>
      <Link href={`/runs/${id}`}>{data?.task_id ?? id}</Link>
      <Id value={id} />
      {data && <Time at={data.created_at} />}
      {error && <Trouble error={error} />}
    </li>
  );
}

export function Lineage({ run, events }: { run: Run; events: RunEvent[] }): ReactNode {
  const turns = useScoped<{ runs: Run[] }>(`/sessions/${run.session_id}/runs`);
  const forks = events
    .filter(({ kind }) => kind === "run.forked")
    .map(({ attributes }) => String(attributes["fork_run_id"]));
  const attempts = attemptsOf(events);
  return (
    <>
      <Section title="Attempts">
        {attempts.length === 0 && <p className="dim">No worker has taken it yet.</p>}
        <ul className="lines waits">
          {attempts.map((attempt) => (
            <AttemptRow key={attempt.number} attempt={attempt} />
          ))}
        </ul>
      </Section>
      <Section
        title="Turns of the session"
        aside={<Link href={`/sessions/${run.session_id}`}>The session</Link>}
      >
        {turns.error && <Trouble error={turns.error} retry={turns.refresh} />}
        <ul className="lines">
          {turns.data?.runs.map((turn) => (
            <li key={turn.id} aria-current={turn.id === run.id || undefined}>
              <Status value={turn.status} />
              <span className="dim">turn {turn.turn_index}</span>
              {turn.id === run.id ? (
                <b>this run</b>
              ) : (
                <Link href={`/runs/${turn.id}`}>{turn.task_id}</Link>
              )}
              <Id value={turn.id} />
              <Time at={turn.created_at} />
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Forks">
        {!run.forked_from && forks.length === 0 && (
          <p className="dim">
            It is no fork and has none. A parked run can be forked where it waits.
          </p>
        )}
        <ul className="lines">
          {run.forked_from && <Other id={run.forked_from.run_id} words="forked from" />}
          {forks.map((id) => (
            <Other key={id} id={id} words="forked into" />
          ))}
        </ul>
      </Section>
    </>
  );
}
