// Objects of the API as it sends them; docs/openapi.yaml has them whole.
import type { Schema } from "../ui/json_schema.ts";

export type RunStatus =
  "queued" | "running" | "waiting" | "succeeded" | "failed" | "cancelled" | "expired";

export interface Failure {
  layer: string;
  failure_kind: string;
  message: string;
  details?: Record<string, unknown>;
}

export interface Wait {
  id: string;
  run_id: string;
  attempt_number: number;
  kind: "human" | "token" | "timer" | "stream";
  condition: string;
  suspension: string;
  params: Record<string, unknown>;
  metadata: Record<string, unknown>;
  tags: string[];
  timeout_at?: string | null;
  token_id?: string | null;
  checkpoint?: { id: string; state: string; size_bytes: number } | null;
  created_at: string;
  settled_at?: string | null;
  released_at?: string | null;
}

export interface Token {
  id: string;
  status: string;
  data?: unknown;
  metadata: Record<string, unknown>;
  wait_id?: string | null;
  run_id?: string | null;
  completed_by?: { type: string; id: string; name?: string | null } | null;
  created_at: string;
  completed_at?: string | null;
}

export interface Run {
  id: string;
  session_id: string;
  workspace_id: string;
  task_id: string;
  deployment_id: string;
  deployment_version: string;
  status: RunStatus;
  execution_status: string;
  exit_code: number | null;
  attempt_number?: number | null;
  turn_index: number;
  previous_run_id?: string | null;
  forked_from?: { run_id: string; wait_id: string } | null;
  reason: string;
  payload: unknown;
  output?: unknown;
  error?: Failure | null;
  queue: string;
  concurrency_key?: string | null;
  priority: number;
  max_duration_seconds: number;
  active_duration_ms: number;
  secret_names: string[];
  metadata: Record<string, unknown>;
  tags: string[];
  pending_wait?: Wait | null;
  queued_reason?: string | null;
  isolation?: { engine: string; grade: string; accelerated: boolean } | null;
  base_version_id?: string | null;
  result_version_id?: string | null;
  created_at: string;
  updated_at: string;
  started_at?: string | null;
  finished_at?: string | null;
}

export interface RunEvent {
  id: string;
  cursor: string;
  kind: string;
  category: string;
  severity: string;
  attempt_number?: number | null;
  attributes: Record<string, unknown>;
  at: string;
}

export interface Counts {
  queued: number;
  running: number;
  waiting: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  expired: number;
}

export interface Session {
  id: string;
  task_id: string;
  status: string;
  activity: string;
  external_id?: string | null;
  current_run_id?: string | null;
  workspace_id: string;
  can_close?: boolean;
  metadata: Record<string, unknown>;
  tags: string[];
  created_at: string;
  updated_at: string;
  expires_at?: string | null;
}

export interface Deployment {
  id: string;
  version: string;
  status: string;
  is_current: boolean;
  content_hash: string;
  error?: Failure | null;
  tasks: { task_id: string }[];
  sandboxes: { sandbox_id: string }[];
  promoted_at?: string | null;
  promotion_reason?: string | null;
  sdk_version?: string | null;
  cli_version?: string | null;
  created_at: string;
  deployed_at?: string | null;
  failed_at?: string | null;
}

export interface Environment {
  id: string;
  project_id: string;
  slug: string;
  name: string;
  color_hex: string;
  is_default: boolean;
  worker_group: string;
  min_grade: string;
  limits: { workspaces?: number; storage_bytes?: number };
  created_at: string;
}

export interface Project {
  id: string;
  slug: string;
  name: string;
  is_default: boolean;
  environments: Environment[];
  created_at: string;
}

export interface Me {
  auth: "session" | "api_key";
  public_url: string;
  server_version: string;
  user?: { id: string; email: string; display_name: string } | null;
  organization: { id: string; slug: string; name: string };
  role?: string | null;
  permissions: string[];
}

export interface Worker {
  id: string;
  resource_id: string;
  group: string;
  state: string;
  epoch: number;
  roles: string[];
  labels: Record<string, string>;
  engine?: string | null;
  grade?: string | null;
  version: string;
  capabilities?: {
    arch?: string;
    kernel_digest?: string;
    rootfs_digest?: string;
    vcpus?: number;
    memory_mib?: number;
    disk_mib?: number;
    execution_slots?: number;
  } | null;
  probes: { engine: string; grade: string; usable: boolean; reason?: string | null }[];
  paused: string[];
  quarantined: string[];
  active_leases: number;
  last_seen_at?: string | null;
}

export interface WorkerGroup {
  name: string;
  state: string;
  workers: number;
}

export interface DiffEntry {
  path: string;
  change: "added" | "modified" | "deleted" | "renamed" | "type_changed" | "mode_changed";
  type: string;
  path_before?: string | null;
  size_before?: number | null;
  size_after?: number | null;
  patch?: string | null;
  binary?: boolean | null;
}

export interface Task {
  id: string;
  task_id: string;
  deployment_id: string;
  deployment_version: string;
  file_path: string;
  export_name: string;
  sandbox_id: string;
  accepts_payload: boolean;
  max_duration_seconds: number;
  queue: string;
  secrets: { name: string; placement: string }[];
  schedules: unknown[];
  /** Of one task alone, when its schema can tell. */
  payload_schema?: Schema;
}

export interface Schedule {
  id: string;
  type: "declarative" | "imperative";
  deduplication_key: string;
  task: string;
  cron: string;
  timezone: string;
  status: string;
  last_error?: string | null;
  external_id?: string | null;
  options?: Record<string, unknown> | null;
  secret_bindings?: Record<string, string> | null;
  next_fire_at?: string | null;
  last_fire_at?: string | null;
  upcoming?: string[];
}

export interface StreamRecord {
  id: string;
  sequence: number;
  data: unknown;
  correlation_id?: string | null;
  created_at: string;
}

export interface StreamInfo {
  id: string;
  name: string;
  direction: "input" | "output";
  sequence: number;
}

export interface ApiKey {
  id: string;
  name: string;
  key_prefix: string;
  status: string;
  permissions: { scopes: string[] }[];
  created_at: string;
  expires_at?: string | null;
  last_used_at?: string | null;
}

export interface Member {
  user_id: string;
  email: string;
  display_name: string;
  role: string;
  status: string;
  created_at: string;
}

export interface Invitation {
  id: string;
  email: string;
  role: string;
  status: string;
  expires_at: string;
  invite_url?: string;
}

export interface Secret {
  name: string;
  created_at: string;
  updated_at: string;
}

export interface AuditEntry {
  sequence: number;
  at: string;
  actor: { type: string; id: string; name?: string | null };
  action: string;
  subject?: string | null;
  request_id?: string | null;
  outcome: string;
}

export interface DeploymentEvent {
  id: string;
  cursor: string;
  kind: string;
  at: string;
  attributes: Record<string, unknown>;
}
