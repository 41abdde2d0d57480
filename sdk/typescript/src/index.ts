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
export type { SessionStartPayload, Task, TaskOutput, TaskPayload } from "./task.js";
export type { TaskTriggerPayload } from "./task.js";
export { schedules } from "./schedules.js";
export type { ScheduleFacade, ScheduleTaskConfig } from "./schedules.js";
export type { SchedulePayload } from "./schedule_payload.js";
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
export { streams } from "./streams.js";
export type { StreamInput, StreamListenOptions, StreamOutput } from "./streams.js";
export type { StreamPageOptions, StreamPlace, StreamWaitOptions } from "./streams.js";
export type { StreamWriteOptions } from "./streams.js";
export type { StreamListener } from "./stream_listen.js";
export { metadata } from "./metadata.js";
export type { EmittedEvent } from "./emit.js";
export type { StreamDirection, StreamRef } from "./stream_definition.js";
export type { StreamWriter } from "./stream_write.js";
export { auth, HelmrClient, runs, sessions, tasks, workspaces } from "./client/client.js";
export type { ApiEvent, ApiEventOptions, ApiRequest } from "./client/api.js";
export type { ClientOptions, RequestOptions } from "./client/transport.js";
export { idempotencyKeys } from "./client/idempotency.js";
export type { IdempotencyKey, IdempotencyKeyOptions } from "./client/idempotency.js";
export type { IdempotencyScope } from "./client/idempotency.js";
export type { StartOptions } from "./client/start.js";
export type { DeployedTask, RunHandle, Tasks, TriggerOptions } from "./client/tasks.js";
export type { DiffOptions, Fork, ForkOptions, RunCancellation } from "./client/runs.js";
export type { RunCancelOptions, RunEventListOptions, RunEventOptions } from "./client/runs.js";
export type { RunListOptions, RunLogs, RunOperation, RunPage, Runs } from "./client/runs.js";
export type { RunWaitOptions } from "./client/runs.js";
export type { RunError, RunRef, RunSnapshot, RunStatus } from "./client/run.js";
export type { RunEvent } from "./client/events.js";
export type { Diff, DiffChange, DiffEntry, DiffSide } from "./client/diff.js";
export type { SessionActivity, SessionRef, SessionSnapshot } from "./client/session.js";
export type { SessionStatus } from "./client/session.js";
export type { AwaitedSession, SessionEndOptions, SessionHandle } from "./client/sessions.js";
export type { SessionListOptions, SessionPage, Sessions } from "./client/sessions.js";
export type { SessionStartAndWaitOptions, SessionStartOptions } from "./client/sessions.js";
export type { SessionUpdateOptions, StartedSession } from "./client/sessions.js";
export type { AppendedRecord, StreamRecord } from "./client/stream_record.js";
export type { InputStream, OutputListOptions, OutputReadOptions } from "./client/streams.js";
export type { OutputStream, PublicAccess, StreamAppendOptions } from "./client/streams.js";
export type { StreamListOptions, StreamReadOptions } from "./client/streams.js";
export type { StreamSendOptions } from "./client/streams.js";
export type {
  MountSnapshot,
  MountState,
  VersionKind,
  WorkspaceRef,
  WorkspaceSnapshot,
  WorkspaceState,
  WorkspaceVersion,
} from "./client/workspace.js";
export type {
  CreatedWorkspace,
  WorkspaceCreateOptions,
  WorkspaceDiffOptions,
  WorkspaceHandle,
  WorkspaceListOptions,
  WorkspacePage,
  Workspaces,
  WorkspaceStopOptions,
  WorkspaceUpdateOptions,
} from "./client/workspaces.js";
export type {
  FileChange,
  FileData,
  FileEntry,
  FileListOptions,
  FilePage,
  FileRangeOptions,
  FileReadOptions,
  FileSource,
  FileWritten,
  WorkspaceFiles,
} from "./client/workspace_files.js";
export type { VersionListOptions, WorkspaceVersions } from "./client/workspace_versions.js";
export type {
  ExecHandle,
  ExecInput,
  ExecListOptions,
  ExecOptions,
  ExecSnapshot,
  ExecState,
  ExecTerminateOptions,
  ExecWaitOptions,
  ProcessSignal,
  WorkspaceExecs,
} from "./client/workspace_exec.js";
export type {
  PtyCreateOptions,
  PtyHandle,
  PtyListOptions,
  PtySnapshot,
  PtyState,
  WorkspacePtys,
} from "./client/workspace_pty.js";
export type { PtyAttachment, PtyAttachOptions, PtyClosed } from "./client/workspace_attach.js";
export type {
  ProcessChunk,
  ProcessListOptions,
  ProcessOutput,
  ProcessStreamOptions,
} from "./client/workspace_stream.js";
export type { Wait, WaitCondition, WaitKind, WaitSuspension } from "./client/wait.js";
export type { CreatedToken, Token, TokenRef, TokenStatus } from "./client/token.js";
export type { TokenCancelOptions, TokenCompleteOptions } from "./client/tokens.js";
export type { TokenCompletion, TokenCreateOptions } from "./client/tokens.js";
export type { TokenListOptions, TokenPage, Tokens } from "./client/tokens.js";
export type { Auth, PublicToken, PublicTokenOptions } from "./client/auth.js";
export type {
  Schedule,
  ScheduleCreateOptions,
  ScheduleListOptions,
  ScheduleOptions,
  SchedulePage,
  ScheduleRef,
  ScheduleStatus,
  ScheduleUpdateOptions,
} from "./client/schedules.js";
export type { PublicTokenScope } from "./client/auth.js";
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
  WorkspaceStreamError,
  WorkspaceStreamTerminalError,
} from "./errors.js";
