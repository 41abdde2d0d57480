// A field with what is wrong with it beside it, in the browser's words or the server's.
import { useId } from "react";
import type { ReactNode } from "react";
import { HelmrApiError } from "@helmr/sdk";
import { saidBy } from "./trouble.tsx";

export interface FieldProps {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby": string | undefined;
}

export function Asked({
  label,
  hint,
  problem,
  isRequired = false,
  children,
}: {
  label: string;
  hint?: ReactNode;
  problem?: string | undefined;
  isRequired?: boolean;
  children: (props: FieldProps) => ReactNode;
}): ReactNode {
  const id = useId();
  const said = problem ?? hint;
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {isRequired && (
          <abbr title="required" className="required">
            {" *"}
          </abbr>
        )}
      </label>
      {children({
        id,
        "aria-invalid": problem !== undefined,
        "aria-describedby": said ? `${id}-said` : undefined,
      })}
      {said && (
        <small id={`${id}-said`} className={problem ? "problem" : "dim"}>
          {said}
        </small>
      )}
    </div>
  );
}

export interface SaidOf {
  path: string[];
  message: string;
}

/** The field a refusal is about: the server's words begin with its path, "/cron: …", or its name. */
export function fieldOf(error: Error | undefined): SaidOf | undefined {
  if (!(error instanceof HelmrApiError) || error.status !== 400) return undefined;
  const said = saidBy(error);
  const found = /^\/([^:\s]+):? (.*)$/s.exec(said) ?? /^(\w+)(?::| (?=must)) ?(.*)$/s.exec(said);
  if (!found) return undefined;
  return { path: (found[1] as string).split("/"), message: found[2] as string };
}

/** Words separated by commas, without the empty ones. */
export const wordsIn = (text: string): string[] =>
  text
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "");
