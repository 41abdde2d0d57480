import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { decodeBody, encodeBody, encodeFrame, FrameReader, ProtocolError } from "../src/codec.ts";
import type { Body, Frame } from "../src/codec.ts";
import { messages } from "../src/messages.ts";
import type { MessageName } from "../src/messages.ts";

const goldenFile = join(import.meta.dirname, "../../../src/protocol/golden.txt");
const golden = readFileSync(goldenFile, "utf8")
  .trim()
  .split("\n")
  .map((line) => line.split(" ") as [MessageName, string])
  .filter(([name]) => name in messages);

function only(bytes: Buffer, sender: "agent" | "adapter"): Frame {
  const reader = new FrameReader(sender);
  reader.push(bytes);
  const frame = reader.next();
  assert.ok(frame);
  assert.equal(reader.next(), undefined);
  return frame;
}

const senderOf = (name: MessageName): "agent" | "adapter" => {
  const { sender } = messages[name];
  return sender === "any" ? "agent" : sender;
};

test("every message of the adapter has golden bytes", () => {
  assert.deepEqual(golden.map(([name]) => name).sort(), Object.keys(messages).sort());
});

for (const [name, hex] of golden)
  test(`${name} has the golden bytes when read and written again`, () => {
    const frame = only(Buffer.from(hex, "hex"), senderOf(name));
    assert.equal(frame.name, name);
    const body =
      name === "DATA" ? frame.body : encodeBody(name, decodeBody<Body>(name, frame.body));
    assert.equal(encodeFrame(name, body).toString("hex"), hex);
  });

test("a frame is the same however its bytes are cut", () => {
  const [name, hex] = golden.find(([n]) => n === "A_START") as [MessageName, string];
  const bytes = Buffer.from(hex, "hex");
  const reader = new FrameReader("agent");
  for (const [i, byte] of bytes.entries()) {
    reader.push(Uint8Array.of(byte));
    const frame = reader.next();
    assert.equal(frame !== undefined, i === bytes.length - 1);
    if (frame) assert.deepEqual(frame.body, only(bytes, "agent").body);
  }
  assert.equal(name, "A_START");
});

const header = (length: number, type: number): string => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32LE(length, 0);
  bytes.writeUInt8(type, 4);
  return bytes.toString("hex");
};

const refusedHeaders: [string, string][] = [
  ["a type nobody knows", header(0, 99)],
  ["a type only the host may send", header(0, 1)],
  ["a type only the adapter may send", header(0, messages.A_OUTCOME.number)],
  [
    "a length over the type's bound, before any of the body",
    header(65_537, messages.A_CANCEL.number),
  ],
];

for (const [what, hex] of refusedHeaders)
  test(`a header with ${what} is refused`, () => {
    const reader = new FrameReader("agent");
    reader.push(Buffer.from(hex, "hex"));
    assert.throws(() => reader.next(), ProtocolError);
  });

/* Of A_CANCEL: 1 reason text, 2 grace_ms u64. */
const refusedBodies: [string, string][] = [
  ["a missing field", "010401000000" + "61"],
  ["fields out of order", "02020000000000000000" + "010401000000" + "61"],
  ["a field twice", "010401000000" + "61" + "010401000000" + "61" + "02020000000000000000"],
  ["a field of another kind", "010301000000" + "61" + "02020000000000000000"],
  ["an unknown field below 128", "010401000000" + "61" + "02020000000000000000" + "030100000000"],
  ["an unknown kind", "010401000000" + "61" + "02020000000000000000" + "80090000"],
  ["NUL in a text", "010401000000" + "00" + "02020000000000000000"],
  ["a text that is not UTF-8", "010401000000" + "ff" + "02020000000000000000"],
  ["a text over its length", `010401040000${"61".repeat(1025)}02020000000000000000`],
  ["a value cut short", "010401000000" + "61" + "020200000000"],
  ["a length beyond the end", "0104ffffffff" + "61"],
  ["bytes left over", "010401000000" + "61" + "02020000000000000000" + "80"],
];

for (const [what, hex] of refusedBodies)
  test(`a body with ${what} is refused`, () => {
    assert.throws(() => decodeBody("A_CANCEL", Buffer.from(hex, "hex")), ProtocolError);
  });

test("an unknown field from 128 up is skipped", () => {
  const hex = "010401000000" + "61" + "02020500000000000000" + "8003020000006869";
  assert.deepEqual(decodeBody("A_CANCEL", Buffer.from(hex, "hex")), { reason: "a", graceMs: 5n });
});
