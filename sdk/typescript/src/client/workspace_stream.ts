// What a program of a workspace writes and reads: bytes with their place in the whole.
import { HelmrApiError, WorkspaceStreamError, WorkspaceStreamTerminalError } from "../errors.js";
import { refuse } from "../check.js";
import { sleep } from "./sleep.js";
import { follow } from "./sse.js";
import { requestOf } from "./transport.js";
import type { RequestOptions } from "./transport.js";
import type { WorkspaceAddress, WorkspaceRecord } from "./workspace.js";

export interface ProcessChunk {
  readonly id: string;
  readonly stream: string;
  readonly offsetStart: number;
  readonly offsetEnd: number;
  readonly data: Uint8Array;
  readonly observedAt: Date;
  readonly createdAt: Date;
}

export interface ProcessListOptions extends RequestOptions {
  /** A byte offset: only what comes after it. */
  cursor?: number;
  limit?: number;
}

export interface ProcessStreamOptions extends ProcessListOptions {
  /** Unless false it goes on until the program has ended. */
  follow?: boolean;
}

const writeMax = 256 * 1024;
const writeTries = 4;
const pauseMs = 200;

export function bytesOf(text: string): Uint8Array {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

function processChunk(of: WorkspaceRecord): ProcessChunk {
  return {
    id: of.id,
    stream: of.stream,
    offsetStart: of.offset_start,
    offsetEnd: of.offset_end,
    data: bytesOf(of.data),
    observedAt: new Date(of.observed_at),
    createdAt: new Date(of.created_at),
  };
}

/** What is after the cursor, when some of the chunk is before it. */
function after(chunk: ProcessChunk, cursor: number): ProcessChunk {
  if (chunk.offsetStart >= cursor) return chunk;
  return { ...chunk, offsetStart: cursor, data: chunk.data.subarray(cursor - chunk.offsetStart) };
}

function checkCursor(cursor: number | undefined): void {
  if (cursor !== undefined && !(Number.isSafeInteger(cursor) && cursor >= 0))
    refuse("cursor", "must be a byte offset");
}

/** What was written so long ago that it is gone is an error of the stream. */
function streamError(error: unknown): unknown {
  if (!(error instanceof HelmrApiError) || error.code !== "workspace_stream_cursor_expired")
    return error;
  const earliest = error.details?.earliest_cursor;
  return new WorkspaceStreamError(error.message, {
    code: error.code,
    ...(earliest !== undefined && { cursor: String(earliest) }),
  });
}

/* The events of a stream's feed besides its chunks. */
type Feed = { event: string; record: WorkspaceRecord };

function endOf({ event, record }: Feed): void {
  if (event === "workspace_stream_lost")
    throw new WorkspaceStreamTerminalError("the program is lost with its sandbox", "lost");
  if (event === "workspace_stream_error")
    throw new WorkspaceStreamError(record.message ?? record.code, {
      code: record.code,
      ...(record.cursor != null && { cursor: String(record.cursor) }),
    });
}

/** Output of a program: stdout, stderr, or what a terminal shows. */
export class ProcessOutput {
  readonly #workspace: WorkspaceAddress;
  readonly #path: string;

  constructor(workspace: WorkspaceAddress, path: string) {
    this.#workspace = workspace;
    this.#path = path;
  }

  /** What is there already, from the cursor on. */
  async list(options: ProcessListOptions = {}): Promise<ProcessChunk[]> {
    const { cursor, limit, ...request } = options;
    checkCursor(cursor);
    try {
      const { chunks } = await this.#workspace.json<{ chunks: WorkspaceRecord[] }>(
        "GET",
        this.#path,
        { ...request, query: { cursor, limit } },
      );
      return chunks.map(processChunk);
    } catch (error) {
      throw streamError(error);
    }
  }

  /** Every byte after the cursor once and in order, across broken connections. */
  async *stream(options: ProcessStreamOptions = {}): AsyncGenerator<ProcessChunk> {
    const { limit = Infinity, follow: follows = true } = options;
    let position = options.cursor ?? 0;
    let shown = 0;
    checkCursor(options.cursor);
    for await (const chunk of follows ? this.#follow(options) : this.#pages(options)) {
      if (chunk.offsetEnd <= position) continue;
      yield after(chunk, position);
      position = chunk.offsetEnd;
      if (++shown >= limit) return;
    }
  }

  async *#pages(options: ProcessStreamOptions): AsyncGenerator<ProcessChunk> {
    for (let cursor = options.cursor ?? 0; ;) {
      const chunks = await this.list({ ...requestOf(options), cursor });
      yield* chunks;
      const last = chunks.at(-1);
      if (last === undefined || last.offsetEnd <= cursor) return;
      cursor = last.offsetEnd;
    }
  }

  async *#follow(options: ProcessStreamOptions): AsyncGenerator<ProcessChunk> {
    const { cursor: start } = options;
    let end: Feed | undefined;
    const records = follow<WorkspaceRecord>({
      cursor: start === undefined ? undefined : String(start),
      signal: options.signal,
      open: (cursor) =>
        this.#workspace.open("GET", this.#path, {
          ...requestOf(options),
          query: { cursor },
          headers: { Accept: "text/event-stream" },
        }),
      isRecord: (record, event) => {
        if (event !== "workspace_stream_chunk") end = { event, record };
        return true;
      },
      isLast: () => end !== undefined,
      /* It says when it is over; an end without a word is a connection's. */
      isOver: () => false,
    });
    try {
      for await (const record of records) if (end === undefined) yield processChunk(record);
    } catch (error) {
      throw streamError(error);
    }
    if (end !== undefined) endOf(end);
  }
}

export interface ProcessWriteOptions extends RequestOptions {
  /** Where in the whole input it belongs; after what was written last unless given. */
  offset?: number;
}

const isBroken = (error: unknown): boolean =>
  error instanceof TypeError || (error instanceof HelmrApiError && error.status >= 500);

/* The program has not read what it was sent before. */
const isFull = (error: unknown): boolean => error instanceof HelmrApiError && error.status === 503;

/** Input of a program. Each write says where it belongs, so that none is there twice. */
export class ProcessInput {
  readonly #workspace: WorkspaceAddress;
  readonly #path: string;
  readonly #position: (options: RequestOptions) => Promise<number>;
  #offset: number | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** `position` asks the server how much it has. */
  constructor(
    workspace: WorkspaceAddress,
    path: string,
    position: (options: RequestOptions) => Promise<number>,
  ) {
    this.#workspace = workspace;
    this.#path = path;
    this.#position = position;
  }

  /** The offset after it. Writes of one handle are sent one after the other. */
  write(data: string | Uint8Array, options: ProcessWriteOptions = {}): Promise<number> {
    const written = this.#last.then(() => this.#writeAll(data, options));
    this.#last = written.catch(() => undefined);
    return written;
  }

  /** Resolves when everything before it was sent. */
  settled(): Promise<unknown> {
    return this.#last;
  }

  async #writeAll(data: string | Uint8Array, options: ProcessWriteOptions): Promise<number> {
    const { offset, ...request } = options;
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    checkCursor(offset);
    let position = offset ?? this.#offset ?? (await this.#position(request));
    for (let at = 0; at < bytes.length; at += writeMax) {
      const piece = bytes.subarray(at, at + writeMax);
      await this.#send(piece, position, request);
      position += piece.length;
      this.#offset = position;
    }
    return position;
  }

  /* After a broken connection nobody knows whether the piece has arrived; its offset tells. */
  async #send(piece: Uint8Array, offset: number, request: RequestOptions): Promise<void> {
    for (let tries = 1, again = false; ; again = true) {
      try {
        const body = { offset, data: base64Of(piece) };
        await this.#workspace.json("POST", this.#path, { ...request, body });
        return;
      } catch (error) {
        const arrived =
          again &&
          error instanceof HelmrApiError &&
          error.code === "workspace_stream_offset_conflict" &&
          error.details?.cursor === offset + piece.length;
        if (arrived) return;
        if (!isBroken(error) || request.signal?.aborted || tries >= writeTries) throw error;
        if (!isFull(error)) tries++;
      }
      await sleep(pauseMs * tries, request.signal);
    }
  }
}
