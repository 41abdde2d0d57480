// A form of its own for an answer that has a JSON Schema, with its button.
import { useState } from "react";
import type { ReactNode } from "react";
import { check, initial, kindOf, plain } from "./json_schema.ts";
import type { Schema } from "./json_schema.ts";
import { PayloadForm } from "./payload_form.tsx";

/** What a form can be made of: an object with members that are named. */
export function formSchema(schema: unknown): Schema | undefined {
  if (typeof schema !== "object" || schema === null) return undefined;
  return kindOf(plain(schema, schema)) === "object" ? schema : undefined;
}

export function SchemaForm({
  schema,
  isBusy,
  send,
}: {
  schema: Schema;
  isBusy: boolean;
  send(data: unknown): void;
}): ReactNode {
  const [value, setValue] = useState(() => initial(schema, schema));
  const [isChecked, setChecked] = useState(false);
  const problems = check(schema, schema, value);
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setChecked(true);
        if (problems.length === 0) send(value);
      }}
    >
      <PayloadForm
        schema={schema}
        value={value}
        problems={isChecked ? problems : []}
        change={setValue}
      />
      <button disabled={isBusy}>Send</button>
    </form>
  );
}
