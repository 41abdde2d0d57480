// As much of JSON Schema as a form needs: which field a value wants, and what is wrong with it. The
// task's own schema has the last word on every payload.
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  minItems?: number;
  maxItems?: number;
}

/** What was typed where JSON is wanted, and is not JSON. */
export class Unread {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type FieldKind = "text" | "number" | "boolean" | "choice" | "object" | "list" | "json";

const mostSteps = 20;
/** Objects in objects beyond this are JSON: a schema may be part of itself. */
export const deepest = 4;

/** Without references and without "or null". */
export function plain(schema: Schema, root: Schema): Schema {
  let found = schema;
  for (let step = 0; step < mostSteps; step++) {
    const others = (found.anyOf ?? found.oneOf)?.filter(({ type }) => type !== "null");
    if (found.$ref?.startsWith("#")) {
      let at: unknown = root;
      for (const name of found.$ref.split("/").slice(1))
        at = (at as Record<string, unknown> | undefined)?.[
          name.replaceAll("~1", "/").replaceAll("~0", "~")
        ];
      const { $ref: _ref, ...rest } = found;
      found = { ...(at as Schema | undefined), ...rest };
    } else if (others?.length === 1) {
      const { anyOf: _any, oneOf: _one, ...rest } = found;
      found = { ...(others[0] as Schema), ...rest };
    } else if (Array.isArray(found.type)) {
      const types = found.type.filter((one) => one !== "null");
      if (types.length !== 1) return found;
      found = { ...found, type: types[0] as string };
    } else return found;
  }
  return found;
}

const isScalar = (value: unknown): boolean =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean";

/** Of a schema that is plain. */
export function kindOf(schema: Schema): FieldKind {
  if (schema.enum?.every(isScalar) || isScalar(schema.const)) return "choice";
  if (schema.anyOf ?? schema.oneOf ?? schema.allOf) return "json";
  if (schema.type === "string") return "text";
  if (schema.type === "number" || schema.type === "integer") return "number";
  if (schema.type === "boolean") return "boolean";
  if (schema.type === "object" && schema.properties) return "object";
  if (schema.type === "array" && schema.items?.type === "string" && !schema.items.enum)
    return "list";
  return "json";
}

/** What a form begins with. */
export function initial(schema: Schema, root: Schema, depth = 0): unknown {
  const found = plain(schema, root);
  if (depth > deepest) return undefined;
  if (found.default !== undefined) return found.default;
  if (found.const !== undefined) return found.const;
  if (kindOf(found) !== "object") return undefined;
  /* A box that is not ticked says no. */
  const unticked = (name: string, member: Schema): false | undefined =>
    found.required?.includes(name) && kindOf(plain(member, root)) === "boolean" ? false : undefined;
  const members = Object.entries(found.properties ?? {}).map(
    ([name, member]) => [name, initial(member, root, depth + 1) ?? unticked(name, member)] as const,
  );
  const given = members.filter(([, value]) => value !== undefined);
  return given.length > 0 || schema === root ? Object.fromEntries(given) : undefined;
}

export interface Problem {
  path: string[];
  message: string;
}

function textProblem({ minLength, maxLength, pattern }: Schema, value: string): string | undefined {
  if (minLength !== undefined && value.length < minLength)
    return `must have at least ${minLength} characters`;
  if (maxLength !== undefined && value.length > maxLength)
    return `must have at most ${maxLength} characters`;
  try {
    if (pattern !== undefined && !new RegExp(pattern, "u").test(value))
      return `must match ${pattern}`;
  } catch {
    /* Another dialect of patterns: the task checks it. */
  }
  return undefined;
}

function numberProblem(schema: Schema, value: number): string | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (schema.type === "integer" && !Number.isInteger(value)) return "must be a whole number";
  if (minimum !== undefined && value < minimum) return `must be at least ${minimum}`;
  if (maximum !== undefined && value > maximum) return `must be at most ${maximum}`;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return `must be more than ${exclusiveMinimum}`;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    return `must be less than ${exclusiveMaximum}`;
  if (multipleOf !== undefined && value % multipleOf !== 0)
    return `must be a multiple of ${multipleOf}`;
  return undefined;
}

function scalarProblem(schema: Schema, value: unknown): string | undefined {
  const choices = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (choices?.every(isScalar) && !choices.includes(value))
    return `must be one of ${choices.join(", ")}`;
  if (schema.type === "string")
    return typeof value === "string" ? textProblem(schema, value) : "must be text";
  if (schema.type === "number" || schema.type === "integer")
    return typeof value === "number" ? numberProblem(schema, value) : "must be a number";
  if (schema.type === "boolean" && typeof value !== "boolean") return "must be true or false";
  return undefined;
}

function listProblem({ minItems, maxItems }: Schema, value: unknown[]): string | undefined {
  if (minItems !== undefined && value.length < minItems) return `needs at least ${minItems}`;
  if (maxItems !== undefined && value.length > maxItems) return `may have at most ${maxItems}`;
  return undefined;
}

/** Every value that is not as its schema says, as far as a form can tell. */
export function check(
  schema: Schema,
  root: Schema,
  value: unknown,
  path: string[] = [],
): Problem[] {
  const found = plain(schema, root);
  const wrong = (message: string): Problem[] => [{ path, message }];
  if (value instanceof Unread) return wrong("is not JSON");
  if (value === undefined || value === null) return [];
  if (found.type === "object" && found.properties) {
    if (typeof value !== "object" || Array.isArray(value)) return wrong("must be an object");
    const given = value as Record<string, unknown>;
    return Object.entries(found.properties).flatMap(([name, member]) => {
      const at = [...path, name];
      if (given[name] !== undefined || !found.required?.includes(name))
        return check(member, root, given[name], at);
      /* What is missing in an object that is not there is told at its own fields. */
      const hasFields = kindOf(plain(member, root)) === "object" && at.length < deepest;
      const inside = hasFields ? check(member, root, {}, at) : [];
      return inside.length > 0 ? inside : [{ path: at, message: "is required" }];
    });
  }
  if (found.type === "array") {
    if (!Array.isArray(value)) return wrong("must be a list");
    const problem = listProblem(found, value);
    if (problem) return wrong(problem);
    const { items } = found;
    return items ? value.flatMap((one, i) => check(items, root, one, [...path, String(i)])) : [];
  }
  const problem = scalarProblem(found, value);
  return problem ? wrong(problem) : [];
}

/** `value` with what is at the path replaced; undefined takes it away. */
export function withAt(value: unknown, [name, ...rest]: string[], to: unknown): unknown {
  if (name === undefined) return to;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const before = isObject && !(value instanceof Unread) ? (value as Record<string, unknown>) : {};
  const next = withAt(before[name], rest, to);
  const { [name]: _old, ...others } = before;
  return next === undefined ? others : { ...before, [name]: next };
}
