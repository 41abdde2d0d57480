// Metadata and tags: what people and programs see of a wait or token beside its value.
import { byteLength, list, record, refuse, text } from "./check.js";

const metadataBytes = 64 * 1024;
const keyBytes = 512;
const tagCount = 32;
const tagBytes = 128;

/** The JSON of a plain object, read back: what is sent does not change after the call. */
export function metadata(field: string, value: unknown): Record<string, unknown> | undefined {
  if (value === undefined) return undefined;
  const given = record(field, value);
  for (const key of Object.keys(given))
    if (byteLength(key) > keyBytes)
      refuse(field, `must not have keys over ${keyBytes} bytes`);
  const json = JSON.stringify(given);
  if (byteLength(json) > metadataBytes) refuse(field, "must not be over 64 KiB of JSON");
  return JSON.parse(json) as Record<string, unknown>;
}

export function tags(field: string, value: unknown): string[] | undefined {
  if (value === undefined) return undefined;
  const given = list(field, value).map((tag, i) => text(`${field}[${i}]`, tag));
  if (given.length > tagCount) refuse(field, `must not be over ${tagCount}`);
  for (const tag of given)
    if (byteLength(tag) > tagBytes)
      refuse(field, `must not have a tag over ${tagBytes} bytes`);
  return given;
}
