// Server-sent events: the frames of one response, and a sequence of them across connections. Only
// what the server sends is understood: id, event, one line of data, comments.
import { AuthError, HelmrApiError } from "../errors.js";
import { sleep } from "./sleep.js";

export interface Frame {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

const maxFrame = 32 * 1024 * 1024;
/* The server breaks a silence every 15 s: after four times that nobody is there any more. */
const silenceMs = 60_000;
const firstPauseMs = 100;
const longestPauseMs = 5000;
const maxFailures = 10;

function frameOf(block: string): Frame | undefined {
  let id: string | undefined;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0 || line === "") continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") id = value;
    else if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length === 0 ? undefined : { id, event, data: data.join("\n") };
}

/* By a reader: not every browser can iterate over a body. */
async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    for (;;) {
      const silence = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => reject(new Error("the server has gone silent")), silenceMs);
      });
      const { done, value } = await Promise.race([reader.read(), silence]);
      clearTimeout(timer);
      if (done) return;
      yield value;
    }
  } finally {
    clearTimeout(timer);
    /* Whoever stops reading does not want the rest. */
    reader.cancel().catch(() => undefined);
  }
}

export async function* frames(response: Response): AsyncGenerator<Frame> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of chunks(response.body)) {
    pending += decoder.decode(chunk, { stream: true });
    if (pending.length > maxFrame) throw new Error("an event of the server is too long");
    const blocks = pending.split(/\r?\n\r?\n/);
    pending = blocks.pop() as string;
    for (const block of blocks) {
      const frame = frameOf(block);
      if (frame) yield frame;
    }
  }
}

class MalformedFrameError extends Error {}

/** What the frame says; undefined when it cannot be read but has an id to go on from. */
function read<T>(frame: Frame, isRecord: Following<T>["isRecord"]): T | undefined {
  try {
    const value = JSON.parse(frame.data) as T;
    if (value !== null && typeof value === "object" && isRecord(value, frame.event)) return value;
  } catch {
    /* Judged below, by its id. */
  }
  if (frame.id === undefined)
    throw new MalformedFrameError("the server sent an event that cannot be read");
  return undefined;
}

/** Whether the same request may succeed later. */
function isPassing(error: unknown, signal: AbortSignal | undefined): boolean {
  if (signal?.aborted || error instanceof AuthError || error instanceof MalformedFrameError)
    return false;
  return !(error instanceof HelmrApiError) || error.status >= 500 || error.status === 429;
}

export interface Following<T> {
  readonly cursor?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Asks for everything after the cursor; from the beginning without one. */
  open(cursor: string | undefined): Promise<Response>;
  isRecord(value: T, event: string): boolean;
  isLast(value: T): boolean;
  /** Asked when connections ended well and brought nothing, this many in a row. */
  isOver(emptyEnds: number): boolean | Promise<boolean>;
}

/** Every record after the cursor in order, across reconnections, until the last one. */
export async function* follow<T>(of: Following<T>): AsyncGenerator<T> {
  let { cursor } = of;
  let emptyEnds = 0;
  for (let failures = 0; ;) {
    try {
      let isEmpty = true;
      for await (const frame of frames(await of.open(cursor))) {
        isEmpty = false;
        failures = 0;
        const record = read(frame, of.isRecord);
        cursor = frame.id ?? cursor;
        if (record === undefined) continue;
        yield record;
        if (of.isLast(record)) return;
      }
      emptyEnds = isEmpty ? emptyEnds + 1 : 0;
      if (isEmpty && (await of.isOver(emptyEnds))) return;
    } catch (error) {
      if (!isPassing(error, of.signal) || ++failures > maxFailures) throw error;
    }
    await sleep(Math.min(firstPauseMs * 2 ** failures, longestPauseMs), of.signal);
  }
}
