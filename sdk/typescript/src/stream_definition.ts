// A stream as a project declares it: what its records are, known to tasks and to clients.
import { definitionOf } from "./brand.js";
import { refuse } from "./check.js";
import { name } from "./names.js";
import type { StandardSchemaV1 } from "./schema.js";

export type StreamDirection = "input" | "output";

/** What the brand of a declared stream holds. */
export interface StreamDefinition {
  readonly name: string;
  readonly direction: StreamDirection;
  /** What writers must satisfy; readers get its output in a run, the record as it is elsewhere. */
  readonly schema: StandardSchemaV1 | undefined;
}

declare const written: unique symbol;

/** A declared stream as a client sees it; what may be written to it is only there for the types. */
export interface DeclaredStream<D extends StreamDirection, T = unknown> {
  readonly name: string;
  readonly direction: D;
  readonly [written]?: T;
}

/** A declared stream or its name. */
export type StreamRef<D extends StreamDirection = StreamDirection, T = unknown> =
  string | DeclaredStream<D, T>;

export function streamDefinition(
  stream: StreamRef,
  direction: StreamDirection,
): Pick<StreamDefinition, "name" | "schema"> {
  if (typeof stream === "string")
    return { name: name("stream", stream, "stream"), schema: undefined };
  const definition =
    definitionOf<StreamDefinition>(stream, "StreamDefinition") ??
    refuse("stream", "must be a name or made by streams.input() or streams.output()");
  if (definition.direction !== direction)
    refuse("stream", `${definition.name} is an ${definition.direction} stream`);
  return definition;
}
