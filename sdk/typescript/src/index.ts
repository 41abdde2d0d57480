export { cache, source } from "./source.js";
export type { CacheRef, SourceDirRef, SourceFileRef } from "./source.js";
export { image } from "./image.js";
export type { ImageBuilder, RunStepOptions } from "./image.js";
export { sandbox } from "./sandbox.js";
export type { ResourceOptions, SandboxBuilder } from "./sandbox.js";
export type { NetworkOptions } from "./network.js";
export { queue } from "./queue.js";
export type { QueueDefinition } from "./queue.js";
export { task } from "./task.js";
export type { Task, TaskOutput, TaskPayload, TaskTriggerPayload } from "./task.js";
export type { BrokerRule, Placement } from "./secret.js";
export type { Backoff, RetryOptions } from "./retry.js";
export type { DurationInput, DurationObject } from "./duration.js";
export { defineConfig } from "./config.js";
export type { Config } from "./config.js";
export { validateSecretName } from "./names.js";
export type { SchemaIssue, SchemaResult, StandardSchemaV1 } from "./schema.js";
export type { TaskContext, TaskLog, TaskWait } from "./context.js";
export type { HumanWaitOptions, LazyWait, TokenWaitOptions, WaitResult } from "./waits.js";
export { timers } from "./timers.js";
export { tokens } from "./tokens.js";
export type { TokenFacade, TokenHandle } from "./tokens.js";
export { logger } from "./logger.js";
export { auth, HelmrClient, runs, tasks } from "./client/client.js";
export type { ClientOptions, RequestOptions } from "./client/transport.js";
export type { DeployedTask, RunHandle, TriggerOptions } from "./client/tasks.js";
export type { DiffOptions, Fork, ForkOptions, RunListOptions } from "./client/runs.js";
export type { RunLogs, RunOperation, RunPage } from "./client/runs.js";
export type { RunError, RunRef, RunSnapshot, RunStatus } from "./client/run.js";
export type { RunEvent } from "./client/events.js";
export type { Diff, DiffChange, DiffEntry } from "./client/diff.js";
export type { SessionSnapshot, SessionStatus } from "./client/session.js";
export type { Wait, WaitCondition, WaitKind, WaitSuspension } from "./client/wait.js";
export type { CreatedToken, Token, TokenRef, TokenStatus } from "./client/token.js";
export type { TokenCompletion, TokenCreateOptions } from "./client/tokens.js";
export type { TokenListOptions, TokenPage } from "./client/tokens.js";
export type { PublicToken, PublicTokenOptions } from "./client/auth.js";
export {
  AuthError,
  ConcurrentWaitError,
  HelmrApiError,
  PayloadSchemaValidationError,
  RunNotFoundError,
  TimeoutError,
  UnsupportedTransportError,
  WaitCancelledError,
  WaitTimeoutError,
} from "./errors.js";
