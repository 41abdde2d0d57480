// Types are taken out once, here. Each file keeps its name, and every remaining character its line
// and column, so that stack traces point into what the author wrote.
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { SyntaxFault } from "./fault.ts";
import { tree } from "./tree.ts";

const hasTypes = /(?<!\.d)\.[cm]?ts$/;

/** What went wrong in a file and where, from the top of the error's stack. */
export function syntaxFault(
  file: string,
  message: string,
  stack: string,
  isUnsupported: boolean,
): SyntaxFault {
  const lines = stack.split("\n");
  const line = Number(/:(\d+)$/.exec(lines[0] ?? "")?.[1] ?? "1");
  const caret = lines.find((text) => /^\s*\^+\s*$/.test(text));
  const column = caret === undefined ? 1 : caret.indexOf("^") + 1;
  const cure = isUnsupported
    ? "types are only stripped, so write it as plain JavaScript (an object instead of an enum)"
    : "correct the syntax";
  return new SyntaxFault(`${file}:${line}:${column}: ${message}; ${cure}`, { file, line });
}

function strip(file: string, text: string): string | SyntaxFault {
  try {
    return stripTypeScriptTypes(text, { mode: "strip" });
  } catch (error) {
    const { code, message, stack = "" } = error as NodeJS.ErrnoException;
    if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX" || code === "ERR_INVALID_TYPESCRIPT_SYNTAX")
      return syntaxFault(file, message, stack, code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX");
    throw error;
  }
}

/** Node calls the function experimental on every first use; the build's log is not the place. */
function withoutWarnings<T>(work: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return work();
  } finally {
    process.emitWarning = emitWarning;
  }
}

function stripFile(from: string, to: string, path: string): SyntaxFault | undefined {
  const stripped = strip(path, readFileSync(from, "utf8"));
  if (stripped instanceof SyntaxFault) {
    copyFileSync(from, to);
    return stripped;
  }
  writeFileSync(to, stripped);
  chmodSync(to, statSync(from).mode & 0o777);
  return undefined;
}

/** Copies the project; a file that does not parse is only a fault once something imports it. */
export function stripProject(source: string, output: string): Map<string, SyntaxFault> {
  const faults = new Map<string, SyntaxFault>();
  mkdirSync(output, { recursive: true });
  withoutWarnings(() => {
    for (const { path, kind } of tree(source)) {
      const [from, to] = [`${source}/${path}`, `${output}/${path}`];
      if (kind === "directory") mkdirSync(to, { recursive: true });
      else if (kind === "link") symlinkSync(readlinkSync(from), to);
      else if (kind === "file" && !hasTypes.test(path)) copyFileSync(from, to);
      else if (kind === "file") {
        const fault = stripFile(from, to, path);
        if (fault) faults.set(to, fault);
      }
    }
  });
  return faults;
}
