import { brand, hasBrand } from "./brand.js";
import type { SchemaIssue } from "./schema.js";

// instanceof asks the brand, so that an error of another copy of the package is recognised.

/** The API key or session was refused. */
export class AuthError extends Error {
  override readonly name = "AuthError";
  constructor(message: string) {
    super(message);
    brand(this, "AuthError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "AuthError");
  }
}

/** The server refused a request for another reason. */
export class HelmrApiError extends Error {
  override readonly name = "HelmrApiError";
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown> | undefined;
  readonly requestId: string | undefined;
  constructor(
    body: string,
    of: { status: number; code: string; details?: Record<string, unknown>; requestId?: string },
  ) {
    super(`Helmr API ${of.status}: ${body}`);
    this.status = of.status;
    this.code = of.code;
    this.details = of.details;
    this.requestId = of.requestId;
    brand(this, "HelmrApiError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "HelmrApiError");
  }
}

export class RunNotFoundError extends Error {
  override readonly name = "RunNotFoundError";
  readonly runId: string;
  constructor(runId: string) {
    super(`there is no run ${runId}`);
    this.runId = runId;
    brand(this, "RunNotFoundError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "RunNotFoundError");
  }
}

/** The caller's own limit passed; the run itself goes on. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
  constructor(message: string) {
    super(message);
    brand(this, "TimeoutError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "TimeoutError");
  }
}

/** There is no server to speak to, or none this way. */
export class UnsupportedTransportError extends Error {
  override readonly name = "UnsupportedTransportError";
  constructor(message: string) {
    super(message);
    brand(this, "UnsupportedTransportError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "UnsupportedTransportError");
  }
}

/** A second wait was opened while one was pending: a run waits for one thing at a time. */
export class ConcurrentWaitError extends Error {
  override readonly name = "ConcurrentWaitError";
  constructor(message: string) {
    super(message);
    brand(this, "ConcurrentWaitError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "ConcurrentWaitError");
  }
}

/** Nobody answered in time. */
export class WaitTimeoutError extends Error {
  override readonly name = "WaitTimeoutError";
  /** As the wait was given it; undefined when the token's own time was what ended. */
  readonly timeout: string | undefined;
  constructor(message: string, timeout?: string) {
    super(message);
    this.timeout = timeout;
    brand(this, "WaitTimeoutError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "WaitTimeoutError");
  }
}

/** The token or the wait was cancelled instead of answered. */
export class WaitCancelledError extends Error {
  override readonly name = "WaitCancelledError";
  constructor(message: string) {
    super(message);
    brand(this, "WaitCancelledError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "WaitCancelledError");
  }
}

const shownIssues = 5;

function issueText(issue: SchemaIssue): string {
  const path = (issue.path ?? [])
    .map((part) => String(typeof part === "object" ? part.key : part))
    .join(".");
  return path === "" ? issue.message : `${path}: ${issue.message}`;
}

/** A schema refused a value. */
export class PayloadSchemaValidationError extends Error {
  override readonly name = "PayloadSchemaValidationError";
  readonly issues: readonly SchemaIssue[];
  constructor(label: string, issues: readonly SchemaIssue[]) {
    const shown = issues.slice(0, shownIssues).map(issueText).join("; ");
    const more = issues.length > shownIssues ? ` (+${issues.length - shownIssues} more)` : "";
    super(`${label}: ${shown}${more}`);
    this.issues = issues;
    brand(this, "PayloadSchemaValidationError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "PayloadSchemaValidationError");
  }
}

/** What a process of a workspace wrote could not be read on. */
export class WorkspaceStreamError extends Error {
  override readonly name = "WorkspaceStreamError";
  readonly code: string;
  /** From where reading may be tried again. */
  readonly cursor: string | undefined;
  constructor(message: string, of: { code: string; cursor?: string }) {
    super(message);
    this.code = of.code;
    this.cursor = of.cursor;
    brand(this, "WorkspaceStreamError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "WorkspaceStreamError");
  }
}

/** The process is gone without having ended: nothing more will come. */
export class WorkspaceStreamTerminalError extends Error {
  override readonly name = "WorkspaceStreamTerminalError";
  readonly terminal: "lost";
  constructor(message: string, terminal: "lost") {
    super(message);
    this.terminal = terminal;
    brand(this, "WorkspaceStreamTerminalError");
  }
  static override [Symbol.hasInstance](value: unknown): boolean {
    return hasBrand(value, "WorkspaceStreamTerminalError");
  }
}
