// The life of a run, drawn to scale: what it was doing when, from its events.
import type { ReactNode } from "react";
import type { Run, RunEvent } from "../api/types.ts";
import { durationText, useNow } from "./time.tsx";

type Kind = "queued" | "starting" | "running" | "waiting" | "parked" | "resuming";
interface Span {
  kind: Kind;
  from: number;
  to: number;
}

/* What a run is doing after an event of this kind. */
const next: Record<string, Kind | "over"> = {
  "run.created": "queued",
  "run.lease_assigned": "starting",
  "run.lease_started": "running",
  "run.waiting": "waiting",
  "run_wait.created": "waiting",
  "checkpoint.ready": "parked",
  "run.wait_resume_queued": "resuming",
  "run.resumed": "running",
  "run.dispatch_requeued": "queued",
  "run.retry_scheduled": "queued",
  "run.completed": "over",
  "run.failed": "over",
  "run.cancelled": "over",
  "run.expired": "over",
  "run.dead_lettered": "over",
};

export function spansOf(events: RunEvent[], now: number): Span[] {
  const spans: Span[] = [];
  let kind: Kind | "over" | undefined;
  let from = 0;
  const close = (to: number): void => {
    if (kind !== undefined && kind !== "over" && to >= from) spans.push({ kind, from, to });
  };
  for (const event of events) {
    let after = next[event.kind];
    /* A sandbox that is made ready again for a parked run is on its way back. */
    if (after === "starting" && (kind === "resuming" || kind === "parked")) after = "resuming";
    if (after === "running" && kind === "resuming" && event.kind === "run.lease_started")
      after = "resuming";
    if (after === undefined || after === kind) continue;
    const at = Date.parse(event.at);
    close(at);
    kind = after;
    from = at;
  }
  close(now);
  return spans;
}

export function Timeline({ run, events }: { run: Run; events: RunEvent[] }): ReactNode {
  const now = useNow(run.finished_at ? 60_000 : 500);
  const spans = spansOf(events, run.finished_at ? Date.parse(run.finished_at) : now);
  const from = spans[0]?.from ?? 0;
  const whole = Math.max(1, (spans.at(-1)?.to ?? from) - from);
  if (spans.length === 0) return null;
  const totals = new Map<Kind, number>();
  for (const span of spans)
    totals.set(span.kind, (totals.get(span.kind) ?? 0) + span.to - span.from);
  const words = [...totals].map(([kind, ms]) => `${kind} ${durationText(ms)}`).join(", ");
  return (
    <figure className="timeline">
      <div className="track" role="img" aria-label={`Life of the run: ${words}`}>
        {spans.map((span, i) => (
          <i
            key={i}
            className={`span-${span.kind}`}
            title={`${span.kind}: ${durationText(span.to - span.from)}`}
            style={{
              left: `${((span.from - from) / whole) * 100}%`,
              width: `max(2px, ${((span.to - span.from) / whole) * 100}%)`,
            }}
          />
        ))}
      </div>
      <figcaption>
        {[...totals].map(([kind, ms]) => (
          <span key={kind}>
            <i className={`span-${kind}`} />
            {kind} <b>{durationText(ms)}</b>
          </span>
        ))}
        <span className="dim">in all {durationText(whole)}</span>
      </figcaption>
    </figure>
  );
}
