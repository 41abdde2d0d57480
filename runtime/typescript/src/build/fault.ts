// What is wrong with a project, in words its author can act on.
import { readFileSync } from "node:fs";
import { authorPlace, authorText, failureOf } from "../failure.ts";
import { DependencyMissingError } from "../hooks.ts";
import { taskRoot } from "../places.ts";

export type FaultKind =
  | "config_invalid"
  | "task_invalid"
  | "duplicate_task_id"
  | "node_too_old"
  | "dependency_missing"
  | "task_load_failed";

export interface Place {
  readonly file?: string | undefined;
  readonly line?: number | undefined;
}

export class Fault extends Error {
  override readonly name = "Fault";
  readonly kind: FaultKind;
  readonly place: Place;
  constructor(kind: FaultKind, message: string, place: Place = {}) {
    super(message);
    this.kind = kind;
    this.place = place;
  }
}

/** A file that is not the language it says it is; which kind of fault depends on who needed it. */
export class SyntaxFault extends Error {
  readonly place: Place;
  constructor(message: string, place: Place) {
    super(message);
    this.place = place;
  }
}

/** The line that names the package, when one can be seen to. */
function importPlace({ file, dependency }: DependencyMissingError): Place {
  const lines = readFileSync(`${taskRoot()}/${file}`, "utf8").split("\n");
  const at = lines.findIndex((line) =>
    [`"${dependency}`, `'${dependency}`].some((text) => line.includes(text)),
  );
  return { file, line: at < 0 ? undefined : at + 1 };
}

/** The fault behind whatever importing `file` threw. */
export function faultOf(kind: FaultKind, file: string, thrown: unknown): Fault {
  if (thrown instanceof Fault) return thrown;
  if (thrown instanceof SyntaxFault) return new Fault(kind, thrown.message, thrown.place);
  if (thrown instanceof DependencyMissingError)
    return new Fault(kind, thrown.message, importPlace(thrown));
  const place = authorPlace(thrown);
  const { name, message } = failureOf(thrown);
  const at = place.file === undefined ? file : `${place.file}:${place.line}`;
  const said = name === "Error" || name === "TypeError" ? message : `${name}: ${message}`;
  return new Fault(kind, authorText(`${at}: ${said}`), { file, ...place });
}
