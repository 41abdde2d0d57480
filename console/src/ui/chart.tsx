// Small charts, drawn by hand: bars over time, by kind.
import type { ReactNode } from "react";

export interface Bar {
  label: string;
  /** What it says when one points at it. */
  words: string;
  parts: { kind: string; value: number }[];
}

export function Bars({ bars, label }: { bars: Bar[]; label: string }): ReactNode {
  const highest = Math.max(
    ...bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0)),
    Number.MIN_VALUE,
  );
  const width = 100 / Math.max(1, bars.length);
  return (
    <svg
      className="bars"
      viewBox="0 0 100 40"
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {bars.map((bar, i) => {
        let top = 40;
        return (
          <g key={bar.label}>
            <title>{`${bar.label}: ${bar.words}`}</title>
            <rect x={i * width} y={0} width={width} height={40} className="bar-hit" />
            <rect
              x={i * width + width * 0.15}
              y={39.4}
              width={width * 0.7}
              height={0.6}
              className="bar-floor"
            />
            {bar.parts
              .filter(({ value }) => value > 0)
              .map(({ kind, value }) => {
                const height = (value / highest) * 38;
                top -= height;
                return (
                  <rect
                    key={kind}
                    x={i * width + width * 0.15}
                    y={top}
                    width={width * 0.7}
                    height={height}
                    className={`bar-${kind}`}
                  />
                );
              })}
          </g>
        );
      })}
    </svg>
  );
}

/** A chart with its name, the number that matters most, and what the colours mean. */
export function ChartCard({
  title,
  number,
  words,
  bars,
  legend,
}: {
  title: string;
  number: string;
  words: string;
  bars: Bar[];
  legend: readonly string[];
}): ReactNode {
  return (
    <figure className="chart">
      <figcaption>
        <span>{title}</span>
        <b>{number}</b>
        <span className="dim">{words}</span>
      </figcaption>
      <Bars bars={bars} label={`${title}: ${number} ${words}`} />
      <p className="legend dim" aria-hidden="true">
        {legend.map((kind) => (
          <span key={kind}>
            <i className={`dot-${kind}`} />
            {kind}
          </span>
        ))}
      </p>
    </figure>
  );
}
