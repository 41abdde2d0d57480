// The form of a cron expression and of a time zone, so that a mistake is found where it was made.
// What an expression means, and whether its days exist, is the server's to say.
import { refuse, text } from "./check.js";

const months = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const weekdays = "SUN MON TUE WED THU FRI SAT".split(" ");

interface Field {
  readonly name: string;
  readonly least: number;
  readonly most: number;
  /** Of the least value, the next one, … */
  readonly names: readonly string[];
}

const fields: readonly Field[] = [
  { name: "minute", least: 0, most: 59, names: [] },
  { name: "hour", least: 0, most: 23, names: [] },
  { name: "day of month", least: 1, most: 31, names: [] },
  { name: "month", least: 1, most: 12, names: months },
  { name: "day of week", least: 0, most: 7, names: weekdays },
];

function valueOf({ least, most, names }: Field, part: string): number | undefined {
  const named = names.indexOf(part.toUpperCase());
  const value = named >= 0 ? named + least : /^\d{1,3}$/.test(part) ? Number(part) : -1;
  return value >= least && value <= most ? value : undefined;
}

function isRange(field: Field, range: string): boolean {
  const [from, to, ...more] = range.split("-").map((part) => valueOf(field, part));
  if (from === undefined || more.length > 0) return false;
  if (!range.includes("-")) return true;
  /* FRI-SUN ends in the Sunday after. */
  return to !== undefined && (from <= to || (to === 0 && field.most === 7));
}

function isItem(field: Field, item: string): boolean {
  const [range = "", step, ...more] = item.split("/");
  if (more.length > 0 || (range !== "*" && !isRange(field, range))) return false;
  if (step === undefined) return true;
  const isSpan = range === "*" || range.includes("-");
  return isSpan && /^\d{1,3}$/.test(step) && Number(step) >= 1 && Number(step) <= field.most;
}

export function cronPattern(field: string, value: unknown): string {
  const pattern = text(field, value);
  const parts = pattern.split(/[ \t]+/).filter((part) => part !== "");
  if (parts.length !== fields.length || pattern.length > 256)
    refuse(field, `must have five fields, minute hour day month weekday: "${pattern}"`);
  for (const [i, part] of parts.entries()) {
    const one = fields[i] as Field;
    if (!part.split(",").every((item) => isItem(one, item)))
      refuse(field, `has no valid ${one.name}: "${part}"`);
  }
  return pattern;
}

export function timezone(field: string, value: unknown): string {
  const name = text(field, value);
  try {
    /* It also takes offsets and any case, which are no names of zones. */
    if (!/^[A-Z][\w+-]*(?:\/[A-Z][\w+-]*)*$/.test(name)) throw new RangeError();
    new Intl.DateTimeFormat("en", { timeZone: name });
  } catch {
    refuse(field, `must be an IANA time zone such as "Europe/Berlin": "${name}"`);
  }
  return name;
}
