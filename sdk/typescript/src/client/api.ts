// Every route of the API, for what has no method of its own: an object as the API has it.
import { frames } from "./sse.js";
import { sleep } from "./sleep.js";
import { requestOf } from "./transport.js";
import type { Call, RequestOptions, Transport } from "./transport.js";
import { AuthError, HelmrApiError } from "../errors.js";

export interface ApiRequest extends RequestOptions {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
}

export interface ApiEvent<T> {
  readonly cursor: string | undefined;
  readonly event: string;
  readonly data: T;
}

export interface ApiEventOptions extends RequestOptions {
  query?: Record<string, string | number | undefined>;
  /** Only what comes after it. */
  cursor?: string;
  /** Told whenever the connection begins or breaks. */
  onConnection?(isOpen: boolean): void;
}

const pauses = [250, 500, 1000, 2000, 4000, 8000];

function callOf(options: ApiRequest): Call {
  return {
    ...requestOf(options),
    ...(options.query && { query: options.query }),
    ...(options.body !== undefined && { body: options.body }),
  };
}

export async function request<T>(
  transport: Transport,
  method: string,
  path: string,
  options: ApiRequest,
): Promise<T> {
  const response = await transport.open(method, path, callOf(options));
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** What a route sends, across reconnections, until the server says it has ended. */
export async function* events<T>(
  transport: Transport,
  path: string,
  options: ApiEventOptions,
): AsyncGenerator<ApiEvent<T>> {
  let { cursor } = options;
  for (let failures = 0; ; failures++) {
    let isEmpty = true;
    try {
      const response = await transport.open("GET", path, {
        ...callOf(options),
        headers: {
          Accept: "text/event-stream",
          ...(cursor !== undefined && { "Last-Event-ID": cursor }),
        },
      });
      options.onConnection?.(true);
      for await (const frame of frames(response)) {
        isEmpty = false;
        failures = 0;
        cursor = frame.id ?? cursor;
        yield { cursor: frame.id, event: frame.event, data: JSON.parse(frame.data) as T };
      }
      if (isEmpty) return;
    } catch (error) {
      if (options.signal?.aborted || error instanceof AuthError) throw error;
      if (error instanceof HelmrApiError && error.status < 500 && error.status !== 429) throw error;
    }
    options.onConnection?.(false);
    await sleep(pauses[Math.min(failures, pauses.length - 1)] as number, options.signal);
  }
}
