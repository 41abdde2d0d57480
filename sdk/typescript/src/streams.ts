// Streams of the session a run belongs to. A project declares them where its modules are loaded;
// inputs are waited for or listened to, outputs are appended to, inside a run only.
import { brand, shared } from "./brand.js";
import { byteLength, integer, record, refuse, text } from "./check.js";
import { streamRecord } from "./client/stream_record.js";
import type { StreamRecord, StreamRecordRecord } from "./client/stream_record.js";
import type { DurationInput } from "./duration.js";
import { metadata, tags } from "./labels.js";
import { name } from "./names.js";
import type { DefinitionRegistry } from "./queue.js";
import { runRuntime } from "./runtime.js";
import { parse, schema } from "./schema.js";
import type { StandardSchemaV1 } from "./schema.js";
import type { DeclaredStream, StreamDefinition, StreamDirection } from "./stream_definition.js";
import { listen } from "./stream_listen.js";
import type { StreamListener } from "./stream_listen.js";
import { pipeInto, streamWriter } from "./stream_write.js";
import type { StreamWriter } from "./stream_write.js";
import { idleTimeout, lazyWait, timeout, waitRequest } from "./waits.js";
import type { LazyWait, WaitLabels, WaitRequest } from "./waits.js";

/** Which records: all, or those with a correlation id; after a sequence. */
export interface StreamPlace {
  correlationId?: string;
  /** A sequence: only records after it. Inputs go on where they were unless it is given. */
  cursor?: number;
}

export interface StreamListenOptions extends StreamPlace, WaitLabels {
  /** Of `on` for the first record only. */
  timeout?: DurationInput;
}

export interface StreamWaitOptions extends StreamListenOptions {
  /** How long the sandbox stays in memory before the run is parked; 0 to 1 h. */
  idleTimeout?: DurationInput;
}

export interface StreamPageOptions extends StreamPlace {
  /** 100 unless given, at most 500. */
  limit?: number;
}

export interface StreamWriteOptions {
  /** `application/json` unless given. */
  contentType?: string;
  correlationId?: string;
}

/** What others send to the session. `I` is what they may send, `O` what the schema makes of it. */
export interface StreamInput<I = unknown, O = I> extends DeclaredStream<"input", I> {
  /** The next record, however long it takes: the run may be parked meanwhile. */
  wait(options?: StreamWaitOptions): LazyWait<O>;
  /** The next record, while the sandbox stays. */
  once(options?: StreamListenOptions): LazyWait<O>;
  /** One record after another, while the sandbox stays; each when the handler is done. */
  on(
    handler: (data: O, record: StreamRecord<I>) => unknown,
    options?: StreamListenOptions,
  ): StreamListener;
  /** What `wait` would give, and gives after this all the same; null when there is none yet. */
  peek(options?: StreamPlace): Promise<StreamRecord<O> | null>;
}

/** What the session's runs tell. */
export interface StreamOutput<T = unknown> extends DeclaredStream<"output", T> {
  append(value: T, options?: StreamWriteOptions): Promise<StreamRecord<T>>;
  /** Appends everything the source gives; tells how many records it were. */
  pipe(source: Iterable<T> | AsyncIterable<T>, options?: StreamWriteOptions): Promise<number>;
  writer(options?: StreamWriteOptions): StreamWriter<T>;
  /** The first record after the cursor; null when there is none. */
  read(options?: StreamPlace): Promise<StreamRecord<T> | null>;
  /** Oldest first. */
  list(options?: StreamPageOptions): Promise<StreamRecord<T>[]>;
}

const registry = shared<DefinitionRegistry>("DefinitionRegistry");
const correlationBytes = 512;
const pageMost = 500;
const pageDefault = 100;

function declared(caller: string, of: unknown, options: unknown, direction: StreamDirection) {
  const given = record(`${caller} options`, options, ["schema"]);
  const definition: StreamDefinition = {
    name: name(`${caller} name`, of, "stream"),
    direction,
    schema: given.schema === undefined ? undefined : schema(`${caller} schema`, given.schema),
  };
  registry.value?.streams?.push(definition);
  return definition;
}

function correlation(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const id = text("options.correlationId", value);
  if (byteLength(id) > correlationBytes || id.trim() !== id)
    refuse("options.correlationId", "must be 1 to 512 bytes without white space around them");
  return id;
}

const cursor = (value: unknown): number | undefined =>
  value === undefined
    ? undefined
    : integer("options.cursor", value, 0, Number.MAX_SAFE_INTEGER);

/** Where the program is in the stream, by correlation id. It is part of its memory: what is brought
 *  back from a checkpoint goes on from there, what begins anew reads everything again. */
const positionKey = (stream: string, correlationId: string | undefined): string =>
  `${stream}\n${correlationId ?? ""}`;

/** Asked when the wait is opened: until then others may have moved the position. */
function nextRecord(
  caller: string,
  definition: StreamDefinition,
  options: unknown,
  isLive: boolean,
): () => WaitRequest {
  const keys = ["timeout", "metadata", "tags", "correlationId", "cursor"];
  const given = record("options", options, isLive ? keys : [...keys, "idleTimeout"]);
  const correlationId = correlation(given.correlationId);
  const from = cursor(given.cursor);
  const key = positionKey(definition.name, correlationId);
  const words = {
    kind: "stream",
    timeout: timeout("options.timeout", given.timeout),
    idle_timeout: idleTimeout("options.idleTimeout", given.idleTimeout),
    metadata: metadata("options.metadata", given.metadata),
    tags: tags("options.tags", given.tags),
  };
  return () => {
    const { positions } = runRuntime(caller);
    const params = {
      stream: definition.name,
      correlation_id: correlationId,
      cursor: from ?? positions.get(key),
      live: isLive || undefined,
    };
    return waitRequest({ ...words, params }, definition.schema, {
      label: `a record of ${definition.name}`,
      unpack: (answer) => {
        const { sequence, data } = answer as StreamRecordRecord;
        positions.set(key, sequence as number);
        return data as unknown;
      },
    });
  };
}

/** Reads without moving the position. */
async function readOne<T>(
  caller: string,
  definition: StreamDefinition,
  options: unknown,
): Promise<StreamRecord<T> | null> {
  const runtime = runRuntime(caller);
  const given = record("options", options, ["correlationId", "cursor"]);
  const correlationId = correlation(given.correlationId);
  const isInput = definition.direction === "input";
  const position = isInput
    ? runtime.positions.get(positionKey(definition.name, correlationId))
    : undefined;
  const found = await runtime.operate("stream.read", {
    stream: definition.name,
    direction: definition.direction,
    correlation_id: correlationId,
    cursor: cursor(given.cursor) ?? position,
  });
  return found === null ? null : streamRecord<T>(found as StreamRecordRecord);
}

async function peek<O>(definition: StreamDefinition, options: unknown) {
  const found = await readOne<unknown>("peek", definition, options);
  if (found === null || definition.schema === undefined) return found as StreamRecord<O> | null;
  const data = await parse(`a record of ${definition.name}`, definition.schema, found.data);
  return { ...found, data: data as O };
}

function input<I = unknown, O = I>(
  streamName: string,
  options: { schema?: StandardSchemaV1<I, O> } = {},
): StreamInput<I, O> {
  const definition = declared("streams.input", streamName, options, "input");
  const stream = {
    name: definition.name,
    direction: "input",
    wait: (o: StreamWaitOptions = {}) =>
      lazyWait<O>("input.wait", nextRecord("input.wait", definition, o, false)),
    once: (o: StreamListenOptions = {}) =>
      lazyWait<O>("input.once", nextRecord("input.once", definition, o, true)),
    on: (handler, o: StreamListenOptions = {}) => {
      if (typeof handler !== "function") refuse("handler", "must be a function");
      const first = nextRecord("input.on", definition, o, true);
      const { timeout: _, ...rest } = o;
      return listen<I, O>(handler, first, nextRecord("input.on", definition, rest, true));
    },
    peek: (o: StreamPlace = {}) => peek<O>(definition, o),
  } satisfies StreamInput<I, O>;
  return Object.freeze(brand(stream, "StreamDefinition", definition));
}

async function append<T>(
  definition: StreamDefinition,
  value: T,
  options: unknown,
): Promise<StreamRecord<T>> {
  const runtime = runRuntime("output.append");
  const given = record("options", options, ["contentType", "correlationId"]);
  const { contentType } = given;
  if (value === undefined) refuse("value", "must be a JSON value");
  if (definition.schema) await parse(`a record of ${definition.name}`, definition.schema, value);
  const made = await runtime.operate("stream.append", {
    stream: definition.name,
    data: value,
    content_type: contentType === undefined ? undefined : text("options.contentType", contentType),
    correlation_id: correlation(given.correlationId),
  });
  return streamRecord<T>(made as StreamRecordRecord);
}

interface Page {
  records: StreamRecordRecord[];
  is_cut: boolean;
}

/** In pieces, for one answer carries only so much. */
async function list<T>(definition: StreamDefinition, options: unknown): Promise<StreamRecord<T>[]> {
  const runtime = runRuntime("output.list");
  const given = record("options", options, ["correlationId", "cursor", "limit"]);
  const correlationId = correlation(given.correlationId);
  const limit =
    given.limit === undefined ? pageDefault : integer("options.limit", given.limit, 1, pageMost);
  let from = cursor(given.cursor) ?? 0;
  const found: StreamRecord<T>[] = [];
  for (let isCut = true; isCut; ) {
    const page = (await runtime.operate("stream.list", {
      stream: definition.name,
      direction: definition.direction,
      correlation_id: correlationId,
      cursor: from,
      limit: limit - found.length,
    })) as Page;
    found.push(...page.records.map((one) => streamRecord<T>(one)));
    from = found.at(-1)?.sequence ?? from;
    isCut = page.is_cut;
  }
  return found;
}

function output<T = unknown>(
  streamName: string,
  options: { schema?: StandardSchemaV1<T, any> } = {},
): StreamOutput<T> {
  const definition = declared("streams.output", streamName, options, "output");
  const stream = {
    name: definition.name,
    direction: "output",
    append: (value: T, o: StreamWriteOptions = {}) => append(definition, value, o),
    pipe: (source: Iterable<T> | AsyncIterable<T>, o: StreamWriteOptions = {}) =>
      pipeInto(source, (value) => append(definition, value, o)),
    writer: (o: StreamWriteOptions = {}) => {
      runRuntime("output.writer");
      return streamWriter<T>((value) => append(definition, value, o));
    },
    read: (o: StreamPlace = {}) => readOne<T>("output.read", definition, o),
    list: (o: StreamPageOptions = {}) => list<T>(definition, o),
  } satisfies StreamOutput<T>;
  return Object.freeze(brand(stream, "StreamDefinition", definition));
}

/** Declared where a module is loaded, so that the deployment knows them. */
export const streams = Object.freeze({ input, output });
