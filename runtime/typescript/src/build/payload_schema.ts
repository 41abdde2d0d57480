// What a payload looks like, for forms: JSON Schema, in whichever of the known ways the library of the schema says it.
// The schema itself still checks every payload; nothing but a form follows from this.
import type { StandardSchemaV1 } from "../sdk.ts";

const mostBytes = 65_536;
const target = "draft-2020-12";

interface Telling {
  readonly "~standard": { readonly jsonSchema?: { input?(options: object): unknown } };
  toJSONSchema?(options: object): unknown;
  toJsonSchema?(): unknown;
}

function told(schema: Telling): unknown {
  const standard = schema["~standard"].jsonSchema;
  if (typeof standard?.input === "function") return standard.input({ target });
  if (typeof schema.toJSONSchema === "function") return schema.toJSONSchema({ io: "input" });
  return typeof schema.toJsonSchema === "function" ? schema.toJsonSchema() : undefined;
}

/** undefined when the library cannot tell, or not for this schema. */
export function payloadSchema(schema: StandardSchemaV1): object | undefined {
  try {
    const json = JSON.stringify(told(schema as unknown as Telling)) ?? "null";
    const value: unknown = JSON.parse(json);
    const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
    return isObject && Buffer.byteLength(json) <= mostBytes ? value : undefined;
  } catch {
    return undefined;
  }
}
