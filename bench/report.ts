// The lines on stdout, and what became worse since the last time.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { note } from "./host.ts";

const lines: string[] = [];

/** One line: name value unit ratio-to-anchor anchor. */
export function figure(
  name: string,
  value: number,
  unit: string,
  anchor?: { name: string; value: number },
): void {
  const round = (number: number, digits = 4) => String(Number(number.toPrecision(digits)));
  const against = anchor ? `${round(value / anchor.value, 3)} ${anchor.name}` : "- -";
  const line = `${name} ${round(value)} ${unit} ${against}`;
  lines.push(line);
  process.stdout.write(`${line}\n`);
  if (anchor) note(`${name}: ${anchor.name} is ${round(anchor.value)} ${unit}`);
}

export function quantile(values: number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = Math.ceil(part * sorted.length) - 1;
  return sorted[Math.max(at, 0)] ?? Number.NaN;
}

export const median = (values: number[]) => quantile(values, 0.5);

const isCost = (unit: string) => ["s", "ms", "us", "bytes", "MB"].includes(unit);

/** Compares with the figures in the file, then replaces those that were measured now. */
export function remember(path: string): void {
  const key = (line: string) => line.split(" ").filter((_, i) => i === 0 || i === 4).join(" ");
  const last = new Map<string, string>();
  if (existsSync(path))
    for (const line of readFileSync(path, "utf8").split("\n"))
      if (line) last.set(key(line), line);
  for (const line of lines) {
    const before = last.get(key(line))?.split(" ");
    const [name, value, unit] = line.split(" ");
    if (before && unit) {
      const growth = Number(value) / Number(before[1]);
      if (isCost(unit) ? growth > 1.25 : growth < 0.8)
        note(`worse than the last time: ${name} was ${before[1]} ${unit}, is ${value} ${unit}`);
    }
    last.set(key(line), line);
  }
  writeFileSync(path, [...last.values(), ""].join("\n"));
}
