// The streams of one session, seen from outside its runs.
import { refuse } from "../check.js";
import { UnsupportedTransportError } from "../errors.js";
import { parse } from "../schema.js";
import { streamDefinition } from "../stream_definition.js";
import type { StreamDefinition, StreamDirection, StreamRef } from "../stream_definition.js";
import { pipeInto, streamWriter } from "../stream_write.js";
import type { StreamWriter } from "../stream_write.js";
import { idempotencyWords } from "./idempotency.js";
import type { IdempotencyKey } from "./idempotency.js";
import type { SessionAddress } from "./session.js";
import { follow } from "./sse.js";
import { appendedRecord, streamRecord } from "./stream_record.js";
import type {
  AppendAnswer,
  AppendedRecord,
  StreamRecord,
  StreamRecordRecord,
} from "./stream_record.js";
import type { Call, RequestOptions, Transport } from "./transport.js";

export interface StreamReadOptions extends RequestOptions {
  /** A sequence: only records after it. */
  cursor?: number;
  correlationId?: string;
}

export interface StreamListOptions extends StreamReadOptions {
  limit?: number;
}

export interface StreamAppendOptions extends RequestOptions {
  contentType?: string;
  correlationId?: string;
  idempotencyKey?: string | IdempotencyKey;
}

export interface PublicAccess {
  /** In place of the client's key. */
  publicAccessToken?: string;
}

export interface StreamSendOptions extends StreamAppendOptions, PublicAccess {}
export interface OutputReadOptions extends StreamReadOptions, PublicAccess {}
export interface OutputListOptions extends StreamListOptions, PublicAccess {}

/* Two, because a server that is just going away may end one without a word. */
const emptyEndsOfOver = 2;

function query(options: StreamListOptions): Record<string, string | number | undefined> {
  const { cursor, correlationId, limit } = options;
  if (cursor !== undefined && !(Number.isSafeInteger(cursor) && cursor >= 0))
    refuse("cursor", "must be the sequence of a record");
  return { cursor, correlation_id: correlationId, limit };
}

/** One stream in one direction; what both directions can do. */
class Stream<T> {
  readonly name: string;
  readonly #transport: () => Transport;
  readonly #address: SessionAddress;
  readonly #schema: StreamDefinition["schema"];
  readonly #path: string;

  constructor(
    transport: () => Transport,
    address: SessionAddress,
    direction: StreamDirection,
    stream: StreamRef,
  ) {
    const { name, schema } = streamDefinition(stream, direction);
    this.name = name;
    this.#transport = transport;
    this.#address = address;
    this.#schema = schema;
    this.#path = `${address.path}/${direction}s/${encodeURIComponent(name)}`;
  }

  async write(data: T, options: StreamSendOptions): Promise<AppendedRecord<T>> {
    const { contentType, correlationId, idempotencyKey, ...request } = options;
    if (data === undefined) refuse("data", "must be a JSON value");
    if (this.#schema) await parse(`a record of ${this.name}`, this.#schema, data);
    const body = {
      data,
      content_type: contentType,
      correlation_id: correlationId,
      ...idempotencyWords(idempotencyKey),
    };
    const call = this.#call(request, {}, { body });
    return appendedRecord(await this.#transport().json<AppendAnswer>("POST", this.#path, call));
  }

  async list(options: OutputListOptions): Promise<StreamRecord<T>[]> {
    const call = this.#call(options, query(options));
    const { records } = await this.#transport().json<{ records: StreamRecordRecord[] }>(
      "GET",
      this.#path,
      call,
    );
    return records.map((record) => streamRecord<T>(record));
  }

  async read(options: OutputReadOptions): Promise<StreamRecord<T> | null> {
    const call = this.#call(options, query(options));
    const { record } = await this.#transport().json<{ record: StreamRecordRecord | null }>(
      "GET",
      `${this.#path}/read`,
      call,
    );
    return record && streamRecord<T>(record);
  }

  async *subscribe(options: OutputReadOptions): AsyncGenerator<StreamRecord<T>> {
    const { cursor: start } = options;
    /* The cursor is a query and no header, which other origins would have to be allowed. */
    const records = follow<StreamRecordRecord>({
      cursor: start === undefined ? undefined : String(start),
      signal: options.signal,
      open: (cursor) =>
        this.#transport().open(
          "GET",
          this.#path,
          this.#call(
            options,
            { ...query(options), cursor },
            { headers: { Accept: "text/event-stream" } },
          ),
        ),
      isRecord: ({ sequence }) => Number.isSafeInteger(sequence),
      isLast: () => false,
      isOver: (emptyEnds) => emptyEnds >= emptyEndsOfOver,
    });
    for await (const record of records) yield streamRecord<T>(record);
  }

  #call(
    options: RequestOptions & PublicAccess,
    of: Record<string, string | number | undefined>,
    more: Pick<Call, "body" | "headers"> = {},
  ): Call {
    return {
      ...this.#address.scope,
      ...options,
      ...more,
      query: { ...this.#address.query, ...of },
    };
  }
}

function onlyInRun(method: string): never {
  throw new UnsupportedTransportError(
    `${method} works inside a run only: from outside use list() or subscribe()`,
  );
}

/** What others send to a session's runs. */
export class InputStream<T = unknown> {
  readonly name: string;
  readonly #stream: Stream<T>;

  constructor(transport: () => Transport, address: SessionAddress, stream: StreamRef<"input", T>) {
    this.#stream = new Stream<T>(transport, address, "input", stream);
    this.name = this.#stream.name;
  }

  send(data: T, options: StreamSendOptions = {}): Promise<AppendedRecord<T>> {
    return this.#stream.write(data, options);
  }

  /** Oldest first. */
  list(options: StreamListOptions = {}): Promise<StreamRecord<T>[]> {
    return this.#stream.list(options);
  }

  /** Every record after the cursor and each new one, until the session is no longer open. */
  subscribe(options: StreamReadOptions = {}): AsyncGenerator<StreamRecord<T>> {
    return this.#stream.subscribe(options);
  }

  wait(): never {
    return onlyInRun("input.wait");
  }

  once(): never {
    return onlyInRun("input.once");
  }

  on(): never {
    return onlyInRun("input.on");
  }

  peek(): never {
    return onlyInRun("input.peek");
  }
}

/** What a session's runs, or others in their name, tell. */
export class OutputStream<T = unknown> {
  readonly name: string;
  readonly #stream: Stream<T>;

  constructor(transport: () => Transport, address: SessionAddress, stream: StreamRef<"output", T>) {
    this.#stream = new Stream<T>(transport, address, "output", stream);
    this.name = this.#stream.name;
  }

  append(value: T, options: StreamAppendOptions = {}): Promise<AppendedRecord<T>> {
    return this.#stream.write(value, options);
  }

  /** Tells how many records it were. */
  pipe(
    source: Iterable<T> | AsyncIterable<T>,
    options: Omit<StreamAppendOptions, "idempotencyKey"> = {},
  ): Promise<number> {
    return pipeInto(source, (value) => this.append(value, options));
  }

  writer(options: Omit<StreamAppendOptions, "idempotencyKey"> = {}): StreamWriter<T> {
    return streamWriter((value) => this.append(value, options));
  }

  /** The first record after the cursor; null when there is none yet. */
  read(options: OutputReadOptions = {}): Promise<StreamRecord<T> | null> {
    return this.#stream.read(options);
  }

  /** Oldest first. */
  list(options: OutputListOptions = {}): Promise<StreamRecord<T>[]> {
    return this.#stream.list(options);
  }

  /** Every record after the cursor and each new one, until the session is no longer open. */
  subscribe(options: OutputReadOptions = {}): AsyncGenerator<StreamRecord<T>> {
    return this.#stream.subscribe(options);
  }
}
