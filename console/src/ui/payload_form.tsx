// Fields for a payload, made from its JSON Schema: texts, numbers, switches, choices, lists of words,
// objects in objects; whatever else there is, is asked for as JSON.
import { useId } from "react";
import type { ReactNode } from "react";
import { Asked } from "./form.tsx";
import { Unread, deepest, kindOf, plain, withAt } from "./json_schema.ts";
import type { Problem, Schema } from "./json_schema.ts";

interface Place {
  root: Schema;
  value: unknown;
  problems: Problem[];
  change(path: string[], value: unknown): void;
}

const longText = 200;

const isAt = (a: string[], b: string[]): boolean =>
  a.length === b.length && a.every((name, i) => name === b[i]);

/** What is wrong inside of a value that has one field only. */
function belowOf(problems: Problem[], path: string[]): string | undefined {
  const found = problems.find((one) => isAt(one.path.slice(0, path.length), path));
  return found && `${found.path.slice(path.length).join(".")}: ${found.message}`;
}

/** "maxRetries" and "max_retries" as people write them; a title is better. */
function labelOf(name: string, { title }: Schema): string {
  if (title) return title;
  const words = name.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").replaceAll(/[_-]+/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1).toLowerCase();
}

function valueAt(value: unknown, path: string[]): unknown {
  return path.reduce<unknown>(
    (at, name) => (at as Record<string, unknown> | undefined)?.[name],
    value,
  );
}

function jsonText(value: unknown): string {
  if (value === undefined) return "";
  return value instanceof Unread ? value.text : JSON.stringify(value, null, 2);
}

function readJson(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return new Unread(text);
  }
}

/* A choice is kept by its place: an option's own value is always text. */
function Choice({
  schema,
  value,
  isRequired,
  set,
  ...props
}: {
  schema: Schema;
  value: unknown;
  isRequired: boolean;
  set(value: unknown): void;
  id: string;
}): ReactNode {
  const choices = schema.enum ?? [schema.const];
  return (
    <select
      {...props}
      value={choices.indexOf(value)}
      onChange={(event) => set(choices[Number(event.target.value)])}
    >
      {(!isRequired || value === undefined) && <option value={-1}>–</option>}
      {choices.map((choice, i) => (
        <option key={i} value={i}>
          {String(choice)}
        </option>
      ))}
    </select>
  );
}

function One({
  name,
  schema,
  path,
  isRequired,
  place,
}: {
  name: string;
  schema: Schema;
  path: string[];
  isRequired: boolean;
  place: Place;
}): ReactNode {
  const found = plain(schema, place.root);
  const kind = kindOf(found);
  const value = valueAt(place.value, path);
  const problem = place.problems.find((one) => isAt(one.path, path))?.message;
  const set = (next: unknown): void => place.change(path, next);
  const label = labelOf(name, found);
  const id = useId();
  if (kind === "object" && path.length < deepest)
    return (
      <fieldset className="group">
        <legend>{label}</legend>
        {found.description && <p className="dim">{found.description}</p>}
        {problem && <p className="problem">{problem}</p>}
        <Members schema={found} path={path} place={place} />
      </fieldset>
    );
  if (kind === "boolean")
    return (
      <div className="field switch">
        <label htmlFor={id}>
          <input
            id={id}
            type="checkbox"
            checked={value === true}
            aria-invalid={problem !== undefined}
            onChange={(event) => set(event.target.checked)}
          />{" "}
          {label}
        </label>
        {(problem ?? found.description) && (
          <small className={problem ? "problem" : "dim"}>{problem ?? found.description}</small>
        )}
      </div>
    );
  const said = problem ?? belowOf(place.problems, path);
  const hint =
    kind === "list"
      ? [found.description, "one per line"].filter(Boolean).join("; ")
      : kind === "json" || kind === "object"
        ? [found.description, "JSON"].filter(Boolean).join("; ")
        : found.description;
  return (
    <Asked label={label} hint={hint} problem={said} isRequired={isRequired}>
      {(props) => {
        if (kind === "choice")
          return (
            <Choice {...props} schema={found} value={value} isRequired={isRequired} set={set} />
          );
        if (kind === "number")
          return (
            <input
              {...props}
              type="number"
              step={found.type === "integer" ? 1 : "any"}
              value={typeof value === "number" ? value : ""}
              onChange={(event) =>
                set(event.target.value === "" ? undefined : event.target.valueAsNumber)
              }
            />
          );
        if (kind === "list")
          return (
            <textarea
              {...props}
              rows={3}
              value={Array.isArray(value) ? value.join("\n") : ""}
              onChange={(event) =>
                set(event.target.value === "" ? undefined : event.target.value.split("\n"))
              }
            />
          );
        if (kind === "text" && (found.maxLength ?? 0) <= longText && found.format !== "textarea")
          return (
            <input
              {...props}
              type={found.format === "email" ? "email" : found.format === "uri" ? "url" : "text"}
              value={typeof value === "string" ? value : ""}
              onChange={(event) => set(event.target.value === "" ? undefined : event.target.value)}
            />
          );
        if (kind === "text")
          return (
            <textarea
              {...props}
              rows={4}
              value={typeof value === "string" ? value : ""}
              onChange={(event) => set(event.target.value === "" ? undefined : event.target.value)}
            />
          );
        return (
          <textarea
            {...props}
            rows={4}
            spellCheck={false}
            value={jsonText(value)}
            onChange={(event) => set(readJson(event.target.value))}
          />
        );
      }}
    </Asked>
  );
}

function Members({
  schema,
  path,
  place,
}: {
  schema: Schema;
  path: string[];
  place: Place;
}): ReactNode {
  return Object.entries(schema.properties ?? {}).map(([name, member]) => (
    <One
      key={name}
      name={name}
      schema={member}
      path={[...path, name]}
      isRequired={schema.required?.includes(name) ?? false}
      place={place}
    />
  ));
}

export function PayloadForm({
  schema,
  value,
  problems,
  change,
}: {
  schema: Schema;
  value: unknown;
  problems: Problem[];
  change(value: unknown, path: string[]): void;
}): ReactNode {
  return (
    <Members
      schema={plain(schema, schema)}
      path={[]}
      place={{
        root: schema,
        value,
        problems,
        change: (path, next) => change(withAt(value, path, next), path),
      }}
    />
  );
}
