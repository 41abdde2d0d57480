// What a schedule hands to its task: ISO strings on the wire, dates in the task.
import type { SchemaIssue, StandardSchemaV1 } from "./schema.js";

export interface SchedulePayload {
  /** The time that is meant, not the moment the run started. */
  readonly timestamp: Date;
  /** The time that started a run before this one. */
  readonly lastTimestamp?: Date;
  readonly timezone: string;
  readonly scheduleId: string;
  readonly scheduleType: "declarative" | "imperative";
  readonly externalId?: string;
  /** The next five times. */
  readonly upcoming: readonly Date[];
}

const isDate = (value: unknown): value is Date =>
  value instanceof Date && !Number.isNaN(value.getTime());

function dateOf(value: unknown): Date | undefined {
  if (isDate(value)) return value;
  const parsed = typeof value === "string" ? new Date(value) : undefined;
  return isDate(parsed) ? parsed : undefined;
}

/** Reads members one by one and notes what is wrong with them. */
class Reader {
  readonly issues: SchemaIssue[] = [];
  readonly #given: Record<string, unknown>;

  constructor(given: Record<string, unknown>) {
    this.#given = given;
  }

  text(name: string): string {
    const value = this.#given[name];
    if (typeof value === "string" && value !== "") return value;
    this.issues.push({ message: "must be a text", path: [name] });
    return "";
  }

  date(name: string): Date {
    const value = dateOf(this.#given[name]);
    if (value === undefined) this.issues.push({ message: "must be a time", path: [name] });
    return value ?? new Date(0);
  }

  dates(name: string): Date[] {
    const value = this.#given[name];
    const dates = Array.isArray(value) ? value.map(dateOf) : [undefined];
    if (dates.includes(undefined))
      this.issues.push({ message: "must be a list of times", path: [name] });
    return dates.filter(isDate);
  }

  type(name: string): SchedulePayload["scheduleType"] {
    const value = this.text(name);
    if (value !== "declarative" && value !== "imperative")
      this.issues.push({ message: "must be declarative or imperative", path: [name] });
    return value as SchedulePayload["scheduleType"];
  }

  has(name: string): boolean {
    return this.#given[name] !== undefined && this.#given[name] !== null;
  }
}

export const schedulePayload: StandardSchemaV1<SchedulePayload> = {
  "~standard": {
    version: 1,
    vendor: "helmr",
    validate(value) {
      if (value === null || typeof value !== "object" || Array.isArray(value))
        return { issues: [{ message: "must be the payload of a schedule" }] };
      const given = new Reader(value as Record<string, unknown>);
      const payload: SchedulePayload = {
        timestamp: given.date("timestamp"),
        ...(given.has("lastTimestamp") && { lastTimestamp: given.date("lastTimestamp") }),
        timezone: given.text("timezone"),
        scheduleId: given.text("scheduleId"),
        scheduleType: given.type("scheduleType"),
        ...(given.has("externalId") && { externalId: given.text("externalId") }),
        upcoming: given.dates("upcoming"),
      };
      return given.issues.length > 0 ? { issues: given.issues } : { value: payload };
    },
  },
};
