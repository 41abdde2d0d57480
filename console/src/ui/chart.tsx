// Small charts, drawn by hand: bars over time, by kind.
import type { ReactNode } from "react";

export interface Bar {
  label: string;
  parts: { kind: string; value: number }[];
}

export function Bars({ bars, label }: { bars: Bar[]; label: string }): ReactNode {
  const highest = Math.max(
    1,
    ...bars.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0)),
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
            <title>{`${bar.label}: ${bar.parts.map(({ kind, value }) => `${value} ${kind}`).join(", ")}`}</title>
            <rect x={i * width} y={0} width={width} height={40} className="bar-hit" />
            {bar.parts
              .filter(({ value }) => value > 0)
              .map(({ kind, value }) => {
                const height = (value / highest) * 38;
                top -= height;
                return (
                  <rect
                    key={kind}
                    x={i * width + width * 0.12}
                    y={top}
                    width={width * 0.76}
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
