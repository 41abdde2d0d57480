// A task's stops. A lazy wait does nothing until it is awaited; then it is opened once, however
// often it is awaited, and the run may be parked meanwhile.
import { byteLength, record, refuse, text } from "./check.js";
import { dayMs, duration, durationText } from "./duration.js";
import type { DurationInput } from "./duration.js";
import { WaitCancelledError, WaitTimeoutError } from "./errors.js";
import { metadata, tags } from "./labels.js";
import { runRuntime } from "./runtime.js";
import type { Settlement } from "./runtime.js";
import { parse, schema } from "./schema.js";
import type { StandardSchemaV1 } from "./schema.js";

/** How a wait ended: with data, or with the error that `unwrap` throws. */
export type WaitResult<T> =
  | { readonly ok: true; readonly data: T; readonly error?: undefined; unwrap(): T }
  | { readonly ok: false; readonly data?: undefined; readonly error: Error; unwrap(): never };

/** `await w` gives a result and does not throw for how it ended; `await w.unwrap()` does. */
export interface LazyWait<T> extends PromiseLike<WaitResult<T>> {
  unwrap(): Promise<T>;
}

export interface WaitLabels {
  metadata?: Record<string, unknown>;
  tags?: string[];
}

export interface HumanWaitOptions<T = unknown> extends WaitLabels {
  /** What the person is asked, at most 16 KiB. */
  displayText?: string;
  /** 365 days unless given. */
  timeout?: DurationInput;
  /** Checked here, when the answer has come. */
  schema?: StandardSchemaV1<any, T>;
  /** What an answer looks like: `{approved}` unless given, `{text}`, or any JSON. */
  form?: "approval" | "message" | "json";
}

export interface TokenWaitOptions<T = unknown> extends WaitLabels {
  schema?: StandardSchemaV1<any, T>;
  /** The token's own time rules unless given. */
  timeout?: DurationInput;
  /** How long the sandbox stays in memory before the run is parked; 0 to 1 h. */
  idleTimeout?: DurationInput;
}

/** As the server is asked, and what the value must satisfy when it comes. */
export interface WaitRequest {
  readonly body: { readonly kind: "timer" | "token" | "stream"; readonly timeout?: string };
  readonly schema?: StandardSchemaV1 | undefined;
  /** What a schema that refuses the value calls it. */
  readonly label?: string;
  /** The value out of what the server answers with; called once, when it has come. */
  readonly unpack?: (answer: unknown) => unknown;
}

const yearMs = 365 * dayMs;
const timerMs = 10 * yearMs;
const displayTextBytes = 16 * 1024;
const forms = ["approval", "message", "json"];

/** Options that are absent are not sent. */
function present(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function optionalDuration(
  field: string,
  value: unknown,
  leastMs: number,
  mostMs: number,
): string | undefined {
  return value === undefined ? undefined : durationText(duration(field, value, leastMs, mostMs));
}

export const timeout = (field: string, value: unknown): string | undefined =>
  optionalDuration(field, value, 1, yearMs);

export const idleTimeout = (field: string, value: unknown): string | undefined =>
  optionalDuration(field, value, 0, 3_600_000);

export function waitRequest(
  body: Record<string, unknown>,
  checkedBy?: StandardSchemaV1,
  more: Pick<WaitRequest, "label" | "unpack"> = {},
): WaitRequest {
  return { body: present(body) as unknown as WaitRequest["body"], schema: checkedBy, ...more };
}

const optionalSchema = (field: string, value: unknown): StandardSchemaV1 | undefined =>
  value === undefined ? undefined : schema(field, value);

export function durationRequest(field: string, value: unknown): WaitRequest {
  return waitRequest({ kind: "timer", duration: durationText(duration(field, value, 0, timerMs)) });
}

export function instantRequest(field: string, value: unknown): WaitRequest {
  if (typeof value !== "string" && !(value instanceof Date))
    refuse(field, "must be a Date or an ISO string");
  const ms = new Date(value).getTime();
  if (Number.isNaN(ms)) refuse(field, "must be a valid point in time");
  if (ms > Date.now() + timerMs) refuse(field, "must not be over ten years away");
  /* However long ago, it is over at once. */
  return waitRequest({ kind: "timer", until: new Date(Math.max(ms, 0)).toISOString() });
}

export function tokenRequest(field: string, id: unknown, options: unknown): WaitRequest {
  const of = (member: string): string => `${field}.${member}`;
  const given = record(field, options, ["schema", "timeout", "idleTimeout", "metadata", "tags"]);
  return waitRequest(
    {
      kind: "token",
      token_id: text("token", id),
      timeout: timeout(of("timeout"), given.timeout),
      idle_timeout: idleTimeout(of("idleTimeout"), given.idleTimeout),
      metadata: metadata(of("metadata"), given.metadata),
      tags: tags(of("tags"), given.tags),
    },
    optionalSchema(of("schema"), given.schema),
  );
}

export function humanRequest(field: string, options: unknown): WaitRequest {
  const of = (member: string): string => `${field}.${member}`;
  const keys = ["displayText", "timeout", "schema", "form", "metadata", "tags"];
  const given = record(field, options, keys);
  const { displayText, form = "approval" } = given;
  if (displayText !== undefined && typeof displayText !== "string")
    refuse(of("displayText"), "must be a string");
  if (displayText !== undefined && byteLength(displayText) > displayTextBytes)
    refuse(of("displayText"), "must not be over 16 KiB");
  if (!forms.includes(form as string)) refuse(of("form"), `must be one of ${forms.join(", ")}`);
  const shown = { prompt: displayText, form: { version: 1, type: form } };
  return waitRequest(
    {
      kind: "token",
      timeout: timeout(of("timeout"), given.timeout),
      metadata: { ...metadata(of("metadata"), given.metadata), ...present(shown) },
      tags: tags(of("tags"), given.tags),
    },
    optionalSchema(of("schema"), given.schema),
  );
}

function failure(settlement: Exclude<Settlement, { condition: "completed" }>, asked: WaitRequest) {
  const within = asked.body.timeout;
  switch (settlement.condition) {
    case "expired":
      return new WaitTimeoutError(
        within === undefined ? "the wait timed out" : `the wait timed out after ${within}`,
        within,
      );
    case "cancelled":
      return new WaitCancelledError(settlement.reason || "the wait was cancelled");
    case "failed":
      return new Error(settlement.message);
  }
}

const succeeded = <T>(data: T): WaitResult<T> => ({ ok: true, data, unwrap: () => data });

function failed<T>(error: Error): WaitResult<T> {
  return {
    ok: false,
    error,
    unwrap: () => {
      throw error;
    },
  };
}

async function result<T>(asked: WaitRequest, settlement: Settlement): Promise<WaitResult<T>> {
  if (settlement.condition !== "completed") return failed(failure(settlement, asked));
  if (asked.body.kind === "timer") return succeeded(undefined as T);
  const answer = settlement.data ?? null;
  const data = asked.unpack ? asked.unpack(answer) : answer;
  if (asked.schema === undefined) return succeeded(data as T);
  try {
    return succeeded((await parse(asked.label ?? "the answer", asked.schema, data)) as T);
  } catch (error) {
    return failed(error as Error);
  }
}

/** Opens the wait now. Rejects only when it could not be opened. */
export async function openWait<T>(caller: string, asked: WaitRequest): Promise<WaitResult<T>> {
  return result<T>(asked, await runRuntime(caller).wait(asked.body));
}

/** A request that is a function is made when the wait is opened. */
export function lazyWait<T>(caller: string, asked: WaitRequest | (() => WaitRequest)): LazyWait<T> {
  runRuntime(caller);
  let opened: Promise<WaitResult<T>> | undefined;
  const settled = (): Promise<WaitResult<T>> =>
    (opened ??= openWait<T>(caller, typeof asked === "function" ? asked() : asked));
  return Object.freeze({
    /* A promise is what `await` asks for; this one begins when asked. */
    then: (onResult, onError) => settled().then(onResult, onError),
    unwrap: async () => (await settled()).unwrap(),
  } satisfies LazyWait<T>);
}

/** Opens the wait now and gives what it brings, or throws how it ended. */
export async function waitNow<T>(caller: string, asked: WaitRequest): Promise<T> {
  return (await openWait<T>(caller, asked)).unwrap();
}
