// A form made of a JSON Schema: an object of simple values. What is not simple is answered as JSON.
import { useState } from "react";
import type { ReactNode } from "react";
import { Field } from "./parts.tsx";

interface Property {
  type?: string;
  enum?: unknown[];
  title?: string;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

export interface FormSchema {
  properties: [string, Property][];
  required: Set<string>;
}

const simple = ["string", "number", "integer", "boolean"];
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What a form can be made of; undefined when there is none, or when it asks for more than simple values. */
export function formSchema(schema: unknown): FormSchema | undefined {
  if (!isObject(schema) || schema["type"] !== "object" || !isObject(schema["properties"]))
    return undefined;
  const properties = Object.entries(schema["properties"]) as [string, Property][];
  const isSimple = properties.every(
    ([, one]) => isObject(one) && (Array.isArray(one.enum) || simple.includes(String(one.type))),
  );
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  return isSimple ? { properties, required: new Set(required) } : undefined;
}

function Input({
  id,
  property,
  isRequired,
  value,
  set,
}: {
  id: string;
  property: Property;
  isRequired: boolean;
  value: unknown;
  set(value: unknown): void;
}): ReactNode {
  if (property.enum)
    return (
      <select
        id={id}
        required={isRequired}
        value={value === undefined ? "" : JSON.stringify(value)}
        onChange={({ target }) => set(target.value === "" ? undefined : JSON.parse(target.value))}
      >
        <option value="">choose…</option>
        {property.enum.map((one) => (
          <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
            {typeof one === "string" ? one : JSON.stringify(one)}
          </option>
        ))}
      </select>
    );
  if (property.type === "boolean")
    return (
      <input
        id={id}
        type="checkbox"
        checked={value === true}
        onChange={({ target }) => set(target.checked)}
      />
    );
  const isNumber = property.type === "number" || property.type === "integer";
  return (
    <input
      id={id}
      type={isNumber ? "number" : "text"}
      step={property.type === "integer" ? 1 : "any"}
      min={property.minimum}
      max={property.maximum}
      maxLength={property.maxLength}
      required={isRequired}
      value={value === undefined ? "" : String(value)}
      onChange={({ target }) =>
        set(target.value === "" ? undefined : isNumber ? Number(target.value) : target.value)
      }
    />
  );
}

export function SchemaForm({
  schema,
  isBusy,
  send,
}: {
  schema: FormSchema;
  isBusy: boolean;
  send(data: unknown): void;
}): ReactNode {
  const [values, setValues] = useState<Record<string, unknown>>(() =>
    Object.fromEntries(
      schema.properties.map(([name, { type, default: otherwise }]) => [
        name,
        otherwise ?? (type === "boolean" ? false : undefined),
      ]),
    ),
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        send(values);
      }}
    >
      {schema.properties.map(([name, property]) => (
        <Field
          key={name}
          label={property.title ?? name}
          {...(property.description && { hint: property.description })}
        >
          {(id) => (
            <Input
              id={id}
              property={property}
              isRequired={schema.required.has(name) && property.type !== "boolean"}
              value={values[name]}
              set={(value) => setValues({ ...values, [name]: value })}
            />
          )}
        </Field>
      ))}
      <button disabled={isBusy}>Send</button>
    </form>
  );
}
