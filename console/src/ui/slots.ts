// The time until now in equal parts, and what fell into each of them.
import type { Bar } from "./chart.tsx";
import { durationText } from "./time.tsx";

const count = 24;
/* Lengths of a part that one can say, in seconds. */
const lengths = [5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 604_800];

export interface Slots<T> {
  parts: { label: string; items: T[] }[];
  /** What all of them are together, in words. */
  span: string;
}

/** From the oldest item on, at least the last two minutes. */
export function slotsOf<T>(items: T[], timeOf: (item: T) => number, now: number): Slots<T> {
  const oldest = Math.min(now, ...items.map(timeOf));
  const longest = lengths.at(-1) as number;
  const seconds = lengths.find((one) => one * 1000 * count >= now - oldest) ?? longest;
  const length = seconds * 1000;
  const parts = Array.from({ length: count }, (_, i) => ({
    label: i === count - 1 ? "now" : `${durationText((count - 1 - i) * length)} ago`,
    items: [] as T[],
  }));
  for (const item of items)
    parts[count - 1 - Math.floor((now - timeOf(item)) / length)]?.items.push(item);
  return { parts, span: `last ${durationText(count * length).replace(/ 0 (s|min|h)$/, "")}` };
}

export function middle(values: number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}

/** How many of each kind there are in every part. */
export function counted<T>(
  { parts }: Slots<T>,
  kinds: readonly string[],
  kindOf: (item: T) => string,
): Bar[] {
  return parts.map(({ label, items }) => {
    const bar = kinds.map((kind) => ({
      kind,
      value: items.filter((item) => kindOf(item) === kind).length,
    }));
    const there = bar.filter(({ value }) => value > 0);
    return {
      label,
      parts: bar,
      words: there.map(({ kind, value }) => `${value} ${kind}`).join(", ") || "none",
    };
  });
}
