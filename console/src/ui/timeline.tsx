// The life of a run, drawn to scale: what it was doing when, and each wait below it.
import type { ReactNode } from "react";
import type { Run, RunEvent } from "../api/types.ts";
import { spansOf, waitsOf } from "./life.ts";
import type { Kind, WaitSpan } from "./life.ts";
import { durationText, useNow } from "./time.tsx";

const shownWaits = 6;
const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000].concat(
  [1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  [1, 2, 4, 8, 12, 24, 48, 96, 168, 336, 720, 1440, 2880].map((hours) => hours * 3_600_000),
);

/** Times after the beginning at which the axis has a mark: four or so. */
function marks(whole: number): number[] {
  const step = steps.find((one) => whole / one <= 5) ?? whole;
  return Array.from({ length: Math.floor(whole / step) }, (_, i) => (i + 1) * step);
}

const markText = (ms: number): string =>
  durationText(ms)
    .replace(/\.0 s$/, " s")
    .replace(/ 0 (s|min|h)$/, "");

interface Scale {
  left(at: number): string;
  width(from: number, to: number): string;
}

function WaitRow({ wait, scale }: { wait: WaitSpan; scale: Scale }): ReactNode {
  const words = `${wait.isOpen ? "waits" : "waited"} ${durationText(wait.to - wait.from)}${
    wait.parkedMs > 0 ? `, parked ${durationText(wait.parkedMs)}` : ""
  }`;
  return (
    <li>
      <span className="lane-name" title={wait.words}>
        {wait.words}
      </span>
      <span className="lane" title={words}>
        <i
          className={wait.isOpen ? "span-open" : "span-waiting"}
          style={{ left: scale.left(wait.from), width: scale.width(wait.from, wait.to) }}
        />
      </span>
      <span className="lane-words dim">{words}</span>
    </li>
  );
}

export function Timeline({ run, events }: { run: Run; events: RunEvent[] }): ReactNode {
  const now = useNow(run.finished_at ? 60_000 : 500);
  const end = run.finished_at ? Date.parse(run.finished_at) : now;
  const spans = spansOf(events, end);
  const from = spans[0]?.from ?? 0;
  const whole = Math.max(1, (spans.at(-1)?.to ?? from) - from);
  if (spans.length === 0) return <figure className="timeline is-empty" aria-hidden="true" />;
  const scale: Scale = {
    left: (at) => `${((at - from) / whole) * 100}%`,
    width: (since, to) => `max(2px, ${((to - since) / whole) * 100}%)`,
  };
  const totals = new Map<Kind, number>();
  for (const span of spans)
    totals.set(span.kind, (totals.get(span.kind) ?? 0) + span.to - span.from);
  const words = [...totals].map(([kind, ms]) => `${kind} ${durationText(ms)}`).join(", ");
  const waits = waitsOf(events, spans, end);
  return (
    <figure className="timeline">
      <div className="track" role="img" aria-label={`Life of the run: ${words}`}>
        {spans.map((span, i) => (
          <i
            key={i}
            className={`span-${span.kind}`}
            title={`${span.kind}: ${durationText(span.to - span.from)}, from ${new Date(span.from).toLocaleTimeString()}`}
            style={{ left: scale.left(span.from), width: scale.width(span.from, span.to) }}
          />
        ))}
      </div>
      <div className="axis dim" aria-hidden="true">
        {marks(whole).map((ms) => (
          <span key={ms} style={{ left: scale.left(from + ms) }}>
            {markText(ms)}
          </span>
        ))}
      </div>
      {waits.length > 0 && (
        <ul className="lanes" aria-label="Waits">
          {waits.slice(-shownWaits).map((wait) => (
            <WaitRow key={wait.id} wait={wait} scale={scale} />
          ))}
        </ul>
      )}
      <figcaption>
        {[...totals].map(([kind, ms]) => (
          <span key={kind}>
            <i className={`span-${kind}`} />
            {kind} <b>{durationText(ms)}</b>
          </span>
        ))}
        <span className="dim">
          in all {durationText(whole)}
          {waits.length > shownWaits && ` · ${waits.length} waits, the last ${shownWaits} shown`}
        </span>
      </figcaption>
    </figure>
  );
}
