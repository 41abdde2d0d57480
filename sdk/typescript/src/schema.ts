import { refuse } from "./check.js";
import { PayloadSchemaValidationError } from "./errors.js";

/** The Standard Schema contract, version 1: what any of the validation libraries offers. */
export interface StandardSchemaV1<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export function schema(field: string, value: unknown): StandardSchemaV1 {
  /* Some libraries make their schemas callable. */
  const isObject = value !== null && (typeof value === "object" || typeof value === "function");
  const standard = isObject ? (value as Partial<StandardSchemaV1>)["~standard"] : undefined;
  if (standard?.version !== 1 || typeof standard.validate !== "function")
    refuse(field, 'must be a Standard Schema: an object with "~standard", version 1 and validate');
  return value as StandardSchemaV1;
}

/** The schema's output for `value`, or PayloadSchemaValidationError. */
export async function parse<O>(
  label: string,
  from: StandardSchemaV1<unknown, O>,
  value: unknown,
): Promise<O> {
  const result = await from["~standard"].validate(value);
  if (result.issues) throw new PayloadSchemaValidationError(label, result.issues);
  return result.value;
}
