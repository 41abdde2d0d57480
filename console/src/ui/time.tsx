import { useEffect, useReducer } from "react";
import type { ReactNode } from "react";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Infinity],
];

export function ago(at: number, now: number): string {
  let value = (at - now) / 1000;
  if (Math.abs(value) < 5) return "now";
  for (const [unit, size] of steps) {
    if (Math.abs(value) < size) return relative.format(Math.round(value), unit);
    value /= size;
  }
  return "";
}

export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48
    ? `${hours} h ${minutes % 60} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Draws again while time passes. */
export function useNow(everyMs: number): number {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(redraw, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return Date.now();
}

/** Relative, with the exact time on hover. */
export function Time({ at }: { at: string | null | undefined }): ReactNode {
  const now = useNow(10_000);
  if (!at) return <span className="dim">–</span>;
  return (
    <time
      dateTime={at}
      title={new Date(at).toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}
    >
      {ago(Date.parse(at), now)}
    </time>
  );
}
