// Frames and message bodies, by the generated tables. The verdict on bytes is the C decoder's:
// fields in ascending order, required ones present, nothing unknown below 128, nothing left over.
import { FRAME_HEADER_LENGTH, KIND_NUMBER, messages } from "./messages.ts";
import type { Field, MessageName, MessageTable } from "./messages.ts";

const firstSkippableField = 128;

export interface Frame {
  readonly name: MessageName;
  readonly flags: number;
  readonly stream: number;
  readonly body: Buffer;
}

export type Body = Record<string, unknown>;

export class ProtocolError extends Error {}

function fail(text: string): never {
  throw new ProtocolError(text);
}

const byNumber = new Map<number, MessageName>();
for (const name of Object.keys(messages) as MessageName[])
  byNumber.set(messages[name].number, name);

export function encodeFrame(name: MessageName, body: Uint8Array, stream = 0, flags = 0): Buffer {
  const table: MessageTable = messages[name];
  if (body.length > table.limit) fail(`${name} is over ${table.limit} bytes`);
  const frame = Buffer.allocUnsafe(FRAME_HEADER_LENGTH + body.length);
  frame.writeUInt32LE(body.length, 0);
  frame.writeUInt8(table.number, 4);
  frame.writeUInt8(flags, 5);
  frame.writeUInt16LE(stream, 6);
  frame.set(body, FRAME_HEADER_LENGTH);
  return frame;
}

function counted(field: Field, bytes: Uint8Array): Buffer[] {
  if (bytes.length < field.min || bytes.length > field.max)
    fail(`${field.name} has a wrong length`);
  const length = Buffer.allocUnsafe(4);
  length.writeUInt32LE(bytes.length);
  return [length, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)];
}

function encodeValue(field: Field, value: unknown): Buffer[] {
  if (field.kind === "u32") {
    const word = Buffer.allocUnsafe(4);
    word.writeUInt32LE(value as number);
    return [word];
  }
  if (field.kind === "u64") {
    const word = Buffer.allocUnsafe(8);
    word.writeBigUInt64LE(BigInt(value as bigint | number));
    return [word];
  }
  return counted(field, typeof value === "string" ? Buffer.from(value) : (value as Uint8Array));
}

/** Fields that are undefined are left out. */
export function encodeBody(name: MessageName, body: Body): Buffer {
  const parts: Buffer[] = [];
  const fields: readonly Field[] = messages[name].fields;
  for (const field of fields) {
    const value = body[field.name];
    if (value === undefined) {
      if (field.required) fail(`${name}.${field.name} is missing`);
      continue;
    }
    const values = field.kind === "list" ? (value as unknown[]) : [value];
    for (const one of values)
      parts.push(Buffer.from([field.number, KIND_NUMBER[field.kind]]), ...encodeValue(field, one));
  }
  return Buffer.concat(parts);
}

/** Reads values off a body; each read is bounded by what is there. */
class Cursor {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  take(length: number): Buffer {
    if (length > this.#bytes.length - this.#at) fail("a message ends inside a field");
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  value(kind: number): Buffer {
    if (kind === KIND_NUMBER.u32) return this.take(4);
    if (kind === KIND_NUMBER.u64) return this.take(8);
    if (kind > KIND_NUMBER.list || kind === 0) fail("a field is of an unknown kind");
    return this.take(this.take(4).readUInt32LE());
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decodeText(field: Field, bytes: Buffer): string {
  if (bytes.includes(0)) fail(`${field.name} contains NUL`);
  try {
    return utf8.decode(bytes);
  } catch {
    fail(`${field.name} is not UTF-8`);
  }
}

function decodeValue(field: Field, bytes: Buffer): unknown {
  if (field.kind === "u32") return bytes.readUInt32LE();
  if (field.kind === "u64") return bytes.readBigUInt64LE();
  if (bytes.length < field.min || bytes.length > field.max)
    fail(`${field.name} has a wrong length`);
  return field.kind === "bytes" ? bytes : decodeText(field, bytes);
}

function store(into: Body, field: Field, value: unknown): void {
  if (field.kind !== "list") {
    into[field.name] = value;
    return;
  }
  const items = (into[field.name] ??= []) as unknown[];
  if (items.push(value) > field.items) fail(`${field.name} has too many elements`);
}

export function decodeBody<T>(name: MessageName, bytes: Buffer): T {
  const fields: readonly Field[] = messages[name].fields;
  const cursor = new Cursor(bytes);
  const body: Body = {};
  let last = 0;
  while (!cursor.isAtEnd) {
    const [number, kind] = cursor.take(2) as unknown as [number, number];
    const field = fields.find((candidate) => candidate.number === number);
    const isNextElement = number === last && field?.kind === "list";
    if (number <= last && !isNextElement) fail(`${name} has fields out of order`);
    last = number;
    const value = cursor.value(kind);
    if (field === undefined) {
      if (number < firstSkippableField) fail(`${name} has the unknown field ${number}`);
      continue;
    }
    if (kind !== KIND_NUMBER[field.kind]) fail(`${name}.${field.name} is of another kind`);
    store(body, field, decodeValue(field, value));
  }
  for (const field of fields)
    if (field.required && body[field.name] === undefined) fail(`${name}.${field.name} is missing`);
  return body as T;
}

/** Cuts a byte stream into frames; the header is judged before its body is waited for. */
export class FrameReader {
  readonly #sender: "agent" | "adapter";
  #pending: Buffer = Buffer.alloc(0);

  constructor(sender: "agent" | "adapter" = "agent") {
    this.#sender = sender;
  }

  push(chunk: Uint8Array): void {
    this.#pending = Buffer.concat([this.#pending, chunk]);
  }

  next(): Frame | undefined {
    const bytes = this.#pending;
    if (bytes.length < FRAME_HEADER_LENGTH) return undefined;
    const length = bytes.readUInt32LE(0);
    const name =
      byNumber.get(bytes.readUInt8(4)) ?? fail(`unknown message type ${bytes.readUInt8(4)}`);
    const table: MessageTable = messages[name];
    if (table.sender !== "any" && table.sender !== this.#sender)
      fail(`${name} is not the ${this.#sender}'s to send`);
    if (length > table.limit) fail(`${name} is over ${table.limit} bytes`);
    if (bytes.length < FRAME_HEADER_LENGTH + length) return undefined;
    this.#pending = bytes.subarray(FRAME_HEADER_LENGTH + length);
    return {
      name,
      flags: bytes.readUInt8(5),
      stream: bytes.readUInt16LE(6),
      body: bytes.subarray(FRAME_HEADER_LENGTH, FRAME_HEADER_LENGTH + length),
    };
  }
}
