import { record, refuse } from "./check.js";

export interface DurationObject {
  milliseconds?: number;
  seconds?: number;
  minutes?: number;
  hours?: number;
  days?: number;
}

/** Text such as "1h30m", a number of seconds, or an object whose members add up. */
export type DurationInput = string | number | DurationObject;

const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const memberMs: Record<keyof DurationObject, number> = {
  milliseconds: 1,
  seconds: 1000,
  minutes: 60_000,
  hours: 3_600_000,
  days: 86_400_000,
};
const grammar = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;

export const dayMs = 86_400_000;

function ofText(field: string, value: string): number {
  if (/^\d+(?:\.\d+)?$/.test(value)) return Number(value) * 1000;
  if (!grammar.test(value))
    refuse(field, `must be a duration such as "90s" or "1h30m": ${JSON.stringify(value)}`);
  let total = 0;
  for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g))
    total += Number(amount) * (unitMs[unit as string] as number);
  return total;
}

function ofObject(field: string, value: unknown): number {
  const members = Object.entries(record(field, value, Object.keys(memberMs)));
  if (members.length === 0) refuse(field, "must have at least one member");
  let total = 0;
  for (const [key, amount] of members) {
    if (amount === undefined) continue;
    if (typeof amount !== "number" || !(amount >= 0))
      refuse(`${field}.${key}`, "must be a number from 0 up");
    total += amount * memberMs[key as keyof DurationObject];
  }
  return total;
}

/** In milliseconds, rounded up. */
export function duration(field: string, value: unknown, leastMs: number, mostMs: number): number {
  const exact =
    typeof value === "string"
      ? ofText(field, value)
      : typeof value === "number"
        ? value * 1000
        : ofObject(field, value);
  /* 1.1 s is 1100.0000000000002 ms in binary: the rounding must not make 1101 of it. */
  const ms = Math.ceil(Number(exact.toFixed(3)));
  if (!(ms >= leastMs && ms <= mostMs))
    refuse(field, `must be from ${durationText(leastMs)} to ${durationText(mostMs)}`);
  return ms;
}

/** The form every duration is sent in. */
export function durationText(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
