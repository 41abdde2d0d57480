-- The whole schema of the first release, in the one dialect of both engines.
--
-- Ids are UUIDv7 text, times are milliseconds of real time, booleans are 0 and 1, JSON is
-- text written canonically by us. A state is moved by UPDATE ... WHERE state = the old one.

CREATE TABLE organizations (
    id TEXT PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE worker_groups (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused')),
    touched BIGINT NOT NULL DEFAULT 0,
    created_ms BIGINT NOT NULL,
    UNIQUE (organization_id, name)
);

CREATE TABLE projects (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    is_default BIGINT NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    UNIQUE (organization_id, slug)
);

CREATE UNIQUE INDEX projects_default ON projects (organization_id) WHERE is_default = 1;

-- min_grade: 0 shared-kernel (any will do), 1 user-kernel, 2 microvm.
CREATE TABLE environments (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    color_hex TEXT NOT NULL,
    is_default BIGINT NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    group_id TEXT NOT NULL REFERENCES worker_groups (id),
    min_grade BIGINT NOT NULL DEFAULT 0 CHECK (min_grade BETWEEN 0 AND 2),
    workspaces_max BIGINT,
    storage_bytes_max BIGINT,
    current_deployment_id TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    UNIQUE (project_id, slug)
);

CREATE UNIQUE INDEX environments_default ON environments (project_id) WHERE is_default = 1;
CREATE INDEX environments_group ON environments (group_id);

CREATE TABLE users (
    id TEXT PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE TABLE members (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
    status TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);

-- Every hash names the key it was made under, so that a wrong master key is found out.
CREATE TABLE user_sessions (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    token_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    used_ms BIGINT NOT NULL,
    revoked_ms BIGINT
);

-- scopes: permission names, separated by one blank.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    name TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    key_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_by TEXT NOT NULL REFERENCES users (id),
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    last_used_ms BIGINT,
    revoked_ms BIGINT
);

CREATE INDEX api_keys_environment ON api_keys (environment_id, id);

-- Content of the blob store that rows refer to; a blob's id is the sha256 of its bytes.
CREATE TABLE objects (
    id TEXT PRIMARY KEY,
    domain TEXT NOT NULL CHECK (domain IN ('store', 'checkpoint')),
    class TEXT NOT NULL CHECK (class IN ('blob', 'pack', 'manifest')),
    state TEXT NOT NULL CHECK (state IN ('staged', 'ready')),
    digest TEXT,
    size_bytes BIGINT,
    worker_id TEXT,
    created_ms BIGINT NOT NULL,
    ready_ms BIGINT
);

CREATE INDEX objects_staged ON objects (created_ms) WHERE state = 'staged';

CREATE TABLE deployments (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    version TEXT NOT NULL,
    version_day TEXT NOT NULL,
    version_number BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'building', 'deployed', 'failed')),
    content_hash TEXT NOT NULL,
    source_object_id TEXT NOT NULL,
    source_bytes BIGINT NOT NULL,
    bundle_format_version BIGINT NOT NULL,
    env_sealed BYTEA,
    env_key_id TEXT,
    no_cache BIGINT NOT NULL DEFAULT 0 CHECK (no_cache IN (0, 1)),
    config_project TEXT,
    build_manifest_digest TEXT,
    deployment_manifest_digest TEXT,
    manifest TEXT,
    bundle_object_id TEXT,
    bundle_digest TEXT,
    streams TEXT NOT NULL DEFAULT '[]',
    error TEXT,
    build_number BIGINT NOT NULL DEFAULT 0,
    lease_sequence BIGINT NOT NULL DEFAULT 0,
    event_cursor BIGINT NOT NULL DEFAULT 0,
    promoted_ms BIGINT,
    promotion_reason TEXT,
    promoted_by TEXT,
    cancel_requested_ms BIGINT,
    cancel_reason TEXT,
    api_version TEXT NOT NULL,
    sdk_version TEXT,
    cli_version TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    building_ms BIGINT,
    built_ms BIGINT,
    deployed_ms BIGINT,
    failed_ms BIGINT,
    UNIQUE (environment_id, version),
    UNIQUE (environment_id, version_day, version_number)
);

CREATE INDEX deployments_environment ON deployments (environment_id, id);
CREATE UNIQUE INDEX deployments_pending_source ON deployments (environment_id, content_hash)
    WHERE state IN ('queued', 'building');
CREATE INDEX deployments_pending ON deployments (state, created_ms)
    WHERE state IN ('queued', 'building');

CREATE TABLE deployment_events (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    cursor BIGINT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    category TEXT NOT NULL,
    severity TEXT NOT NULL,
    source TEXT NOT NULL,
    redaction_class TEXT NOT NULL,
    attributes TEXT NOT NULL,
    PRIMARY KEY (deployment_id, cursor)
);

CREATE TABLE deployment_sandboxes (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    sandbox_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    guest_abi BIGINT NOT NULL,
    image_digest TEXT NOT NULL,
    image_bytes BIGINT NOT NULL DEFAULT 0,
    layers TEXT NOT NULL,
    image_config TEXT NOT NULL,
    mount_path TEXT NOT NULL,
    cpu_millis BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib BIGINT NOT NULL,
    network TEXT NOT NULL,
    arch TEXT,
    UNIQUE (deployment_id, sandbox_id)
);

CREATE TABLE deployment_tasks (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    deployment_sandbox_id TEXT NOT NULL REFERENCES deployment_sandboxes (id),
    task_id TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,
    file_path TEXT NOT NULL,
    export_name TEXT NOT NULL,
    accepts_payload BIGINT NOT NULL CHECK (accepts_payload IN (0, 1)),
    max_duration_seconds BIGINT NOT NULL,
    queue TEXT NOT NULL,
    ttl_ms BIGINT,
    retry_policy TEXT,
    secrets TEXT NOT NULL DEFAULT '[]',
    schedules TEXT NOT NULL DEFAULT '[]',
    UNIQUE (deployment_id, task_id)
);

CREATE INDEX deployment_tasks_known ON deployment_tasks (environment_id, task_id);

CREATE TABLE deployment_queues (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    name TEXT NOT NULL,
    concurrency_limit BIGINT,
    PRIMARY KEY (deployment_id, name)
);

-- A lane is what a limit counts over: a queue of an environment, one per concurrency key
-- where the queue has a limit; builds and mounts have one each.
CREATE TABLE lanes (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    kind TEXT NOT NULL CHECK (kind IN ('run', 'build', 'mount')),
    queue TEXT NOT NULL,
    concurrency_key TEXT NOT NULL DEFAULT '',
    max_live BIGINT,
    UNIQUE (environment_id, kind, queue, concurrency_key)
);

CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    sandbox_id TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    external_id TEXT,
    state TEXT NOT NULL CHECK (
        state IN ('active', 'archived', 'recovery_required', 'deleting', 'deleted')),
    current_version_id TEXT,
    fencing_generation BIGINT NOT NULL DEFAULT 0,
    metadata TEXT NOT NULL DEFAULT '{}',
    tags TEXT NOT NULL DEFAULT '[]',
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE UNIQUE INDEX workspaces_external ON workspaces (environment_id, external_id)
    WHERE external_id IS NOT NULL;

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    task_id TEXT NOT NULL,
    initial_deployment_id TEXT NOT NULL REFERENCES deployments (id),
    active_deployment_id TEXT NOT NULL REFERENCES deployments (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    current_run_id TEXT,
    external_id TEXT,
    status TEXT NOT NULL CHECK (status IN ('open', 'closed', 'cancelled', 'expired')),
    metadata TEXT NOT NULL DEFAULT '{}',
    tags TEXT NOT NULL DEFAULT '[]',
    terminal_reason TEXT,
    expires_ms BIGINT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE UNIQUE INDEX sessions_external ON sessions (environment_id, external_id)
    WHERE external_id IS NOT NULL;

-- state is the execution status, status the public one derived from it; both are written by
-- the same move. expires_ms is when the ttl ends the wait for a first start. attempt is the
-- number of the attempt that is queued or running; it is shown once started_ms is set.
-- active_since_ms is set while executing, active_ms holds what came before.
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    session_id TEXT NOT NULL REFERENCES sessions (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    deployment_task_id TEXT NOT NULL REFERENCES deployment_tasks (id),
    lane_id TEXT NOT NULL REFERENCES lanes (id),
    task_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('created', 'queued', 'leased', 'executing', 'waiting',
        'pending_cancel', 'finished')),
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting', 'succeeded', 'failed',
        'cancelled', 'expired')),
    outcome TEXT CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'expired',
        'dead_lettered')),
    exit_code BIGINT,
    error TEXT,
    turn_index BIGINT NOT NULL DEFAULT 0,
    previous_run_id TEXT,
    reason TEXT NOT NULL,
    cause TEXT,
    forked_from TEXT,
    queue TEXT NOT NULL,
    concurrency_key TEXT,
    priority BIGINT NOT NULL DEFAULT 0,
    score_ms BIGINT NOT NULL,
    ttl_ms BIGINT,
    expires_ms BIGINT,
    max_duration_seconds BIGINT NOT NULL,
    active_ms BIGINT NOT NULL DEFAULT 0,
    active_since_ms BIGINT,
    retry_policy TEXT,
    secrets TEXT NOT NULL DEFAULT '{}',
    secret_names TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}',
    tags TEXT NOT NULL DEFAULT '[]',
    attempt BIGINT NOT NULL DEFAULT 1,
    dispatches BIGINT NOT NULL DEFAULT 0,
    lease_sequence BIGINT NOT NULL DEFAULT 0,
    engine TEXT,
    grade TEXT,
    accelerated BIGINT,
    base_version_id TEXT,
    result_version_id TEXT,
    event_cursor BIGINT NOT NULL DEFAULT 0,
    log_cursor BIGINT NOT NULL DEFAULT 0,
    stdout_bytes BIGINT NOT NULL DEFAULT 0,
    stderr_bytes BIGINT NOT NULL DEFAULT 0,
    logs_removed BIGINT NOT NULL DEFAULT 0 CHECK (logs_removed IN (0, 1)),
    trace_id TEXT NOT NULL,
    cancel_requested_ms BIGINT,
    cancel_deadline_ms BIGINT,
    cancel_reason TEXT,
    cancel_force BIGINT,
    cancel_by TEXT,
    api_version TEXT NOT NULL,
    sdk_version TEXT,
    cli_version TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    started_ms BIGINT,
    finished_ms BIGINT,
    CHECK ((state = 'finished') = (outcome IS NOT NULL))
);

CREATE INDEX runs_environment ON runs (environment_id, id);
CREATE INDEX runs_status ON runs (environment_id, status, id);
CREATE INDEX runs_task ON runs (environment_id, task_id, id);
CREATE INDEX runs_session ON runs (session_id, turn_index);
CREATE INDEX runs_live ON runs (environment_id, id) WHERE finished_ms IS NULL;
CREATE INDEX runs_cancelling ON runs (cancel_deadline_ms) WHERE state = 'pending_cancel';

-- Payload and output may be 16 MiB each; apart, so that moving a run does not rewrite them.
CREATE TABLE run_values (
    run_id TEXT PRIMARY KEY REFERENCES runs (id),
    payload TEXT NOT NULL,
    output TEXT
);

CREATE TABLE attempts (
    run_id TEXT NOT NULL REFERENCES runs (id),
    number BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('pending', 'executing', 'succeeded', 'failed', 'cancelled')),
    exit_code BIGINT,
    error TEXT,
    created_ms BIGINT NOT NULL,
    started_ms BIGINT,
    finished_ms BIGINT,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE run_events (
    run_id TEXT NOT NULL REFERENCES runs (id),
    cursor BIGINT NOT NULL,
    id TEXT NOT NULL,
    attempt BIGINT,
    kind TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    category TEXT NOT NULL,
    severity TEXT NOT NULL,
    source TEXT NOT NULL,
    redaction_class TEXT NOT NULL,
    attributes TEXT NOT NULL,
    PRIMARY KEY (run_id, cursor)
);

-- Offsets count per delivery and stream, the cursor over the whole run.
CREATE TABLE log_chunks (
    run_id TEXT NOT NULL REFERENCES runs (id),
    cursor BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
    offset_start BIGINT NOT NULL,
    n_bytes BIGINT NOT NULL,
    observed_ms BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    PRIMARY KEY (run_id, cursor),
    UNIQUE (run_id, sequence, stream, offset_start)
);

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    group_id TEXT NOT NULL REFERENCES worker_groups (id),
    resource_id TEXT NOT NULL,
    machine_id TEXT NOT NULL,
    credential_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('registering', 'active', 'draining', 'disabled', 'lost')),
    epoch BIGINT NOT NULL DEFAULT 0,
    boot_id TEXT,
    roles TEXT NOT NULL,
    labels TEXT NOT NULL DEFAULT '{}',
    version TEXT NOT NULL,
    protocol TEXT NOT NULL,
    capabilities TEXT,
    engine TEXT,
    grade BIGINT NOT NULL DEFAULT 0,
    accelerated BIGINT NOT NULL DEFAULT 0,
    arch TEXT,
    free TEXT,
    paused TEXT NOT NULL DEFAULT '[]',
    quarantined TEXT NOT NULL DEFAULT '[]',
    heartbeat_number BIGINT NOT NULL DEFAULT 0,
    heartbeat_ms BIGINT NOT NULL,
    message_cursor BIGINT NOT NULL DEFAULT 0,
    drain_requested_ms BIGINT,
    drain_deadline_ms BIGINT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE UNIQUE INDEX workers_live ON workers (group_id, resource_id)
    WHERE state IN ('registering', 'active', 'draining');
CREATE INDEX workers_heartbeat ON workers (heartbeat_ms)
    WHERE state IN ('registering', 'active', 'draining');

CREATE TABLE leases (
    id TEXT PRIMARY KEY,
    subject_kind TEXT NOT NULL CHECK (subject_kind IN ('run', 'build', 'mount')),
    subject_id TEXT NOT NULL,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    lane_id TEXT NOT NULL REFERENCES lanes (id),
    attempt BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    worker_id TEXT NOT NULL REFERENCES workers (id),
    epoch BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('assigned', 'starting', 'running', 'checkpointing',
        'checkpointed', 'completed', 'failed', 'cancelled', 'lost', 'rejected', 'expired')),
    live BIGINT NOT NULL CHECK (live IN (0, 1)),
    granted_ms BIGINT NOT NULL,
    started_ms BIGINT,
    ended_ms BIGINT,
    expires_ms BIGINT NOT NULL,
    prev_expires_ms BIGINT,
    state_deadline_ms BIGINT,
    hard_deadline_ms BIGINT,
    finalize_fp TEXT,
    complete_fp TEXT,
    complete_answer TEXT,
    UNIQUE (subject_kind, subject_id, sequence),
    CHECK ((live = 1) = (state IN ('assigned', 'starting', 'running', 'checkpointing')))
);

CREATE UNIQUE INDEX leases_live_subject ON leases (subject_kind, subject_id) WHERE live = 1;
CREATE INDEX leases_live_lane ON leases (lane_id) WHERE live = 1;
CREATE INDEX leases_live_environment ON leases (environment_id) WHERE live = 1;
CREATE INDEX leases_live_worker ON leases (worker_id) WHERE live = 1;
CREATE INDEX leases_live_expiry ON leases (expires_ms) WHERE live = 1;
CREATE INDEX leases_live_state_deadline ON leases (state_deadline_ms)
    WHERE live = 1 AND state_deadline_ms IS NOT NULL;
CREATE INDEX leases_live_hard_deadline ON leases (hard_deadline_ms)
    WHERE live = 1 AND hard_deadline_ms IS NOT NULL;

-- Answers to operations and events of a lease, so that a repeated request changes nothing.
CREATE TABLE lease_operations (
    lease_id TEXT NOT NULL REFERENCES leases (id),
    operation TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (lease_id, operation)
);

-- One row exactly while its subject is queued. ttl_ms is the time after which it must not be
-- started for the first time.
CREATE TABLE ready (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('run', 'resume', 'build', 'mount')),
    subject_id TEXT NOT NULL UNIQUE,
    lane_id TEXT NOT NULL REFERENCES lanes (id),
    score_ms BIGINT NOT NULL,
    not_before_ms BIGINT NOT NULL,
    ttl_ms BIGINT,
    cpu_millis BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib BIGINT NOT NULL,
    min_grade BIGINT NOT NULL DEFAULT 0,
    arch TEXT,
    compat TEXT,
    key_id TEXT
);

CREATE INDEX ready_order ON ready (lane_id, score_ms, id);
CREATE INDEX ready_due ON ready (not_before_ms);
CREATE INDEX ready_ttl ON ready (ttl_ms) WHERE ttl_ms IS NOT NULL;

CREATE TABLE worker_messages (
    worker_id TEXT NOT NULL REFERENCES workers (id),
    cursor BIGINT NOT NULL,
    lease_id TEXT,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (worker_id, cursor)
);

CREATE TABLE image_steps (
    project_id TEXT NOT NULL REFERENCES projects (id),
    step_digest TEXT NOT NULL,
    layer TEXT NOT NULL,
    config_delta TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    used_ms BIGINT NOT NULL,
    PRIMARY KEY (project_id, step_digest)
);

CREATE TABLE idempotency (
    environment_id TEXT NOT NULL REFERENCES environments (id),
    route TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    subject_id TEXT,
    response TEXT,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    PRIMARY KEY (environment_id, route, key)
);

CREATE INDEX idempotency_expiry ON idempotency (expires_ms);

-- What people asked of a run, and whether it came to that.
CREATE TABLE operations (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    run_id TEXT NOT NULL REFERENCES runs (id),
    kind TEXT NOT NULL CHECK (kind IN ('cancel')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'applied', 'ignored')),
    reason TEXT,
    force BIGINT NOT NULL DEFAULT 0 CHECK (force IN (0, 1)),
    requested_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    applied_ms BIGINT
);

CREATE INDEX operations_pending ON operations (run_id) WHERE status = 'pending';

-- A run as the API shows it. The last five columns say why a queued run is not given out.
CREATE VIEW run_objects AS
SELECT r.id, r.environment_id, e.project_id, r.session_id, r.workspace_id, r.deployment_id,
    r.deployment_task_id, d.version AS deployment_version, r.task_id, r.state, r.status,
    r.outcome, r.exit_code, r.error, r.attempt, r.turn_index, r.previous_run_id, r.forked_from,
    r.reason, r.cause, r.queue, r.concurrency_key, r.priority, r.ttl_ms,
    r.max_duration_seconds, r.active_ms, r.active_since_ms, r.retry_policy, r.secret_names,
    r.metadata, r.tags, r.engine, r.grade, r.accelerated, r.base_version_id,
    r.result_version_id, r.api_version, r.sdk_version, r.cli_version, r.created_ms,
    r.updated_ms, r.started_ms, r.finished_ms, v.payload, v.output,
    y.not_before_ms, n.max_live,
    CASE WHEN y.id IS NOT NULL AND n.max_live IS NOT NULL THEN
        (SELECT count(*) FROM leases l WHERE l.lane_id = n.id AND l.live = 1) END AS lane_live,
    CASE WHEN y.id IS NOT NULL THEN
        (SELECT count(*) FROM workers w WHERE w.group_id = e.group_id AND w.state = 'active')
        END AS group_workers,
    CASE WHEN y.id IS NOT NULL THEN
        (SELECT count(*) FROM workers w WHERE w.group_id = e.group_id AND w.state = 'active'
            AND w.grade >= y.min_grade AND (y.arch IS NULL OR w.arch = y.arch))
        END AS fitting_workers
FROM runs r
JOIN environments e ON e.id = r.environment_id
JOIN deployments d ON d.id = r.deployment_id
JOIN run_values v ON v.run_id = r.id
JOIN lanes n ON n.id = r.lane_id
LEFT JOIN ready y ON y.subject_id = r.id;

CREATE VIEW deployment_objects AS
SELECT d.id, d.version, e.project_id, d.environment_id, d.config_project, d.content_hash,
    d.source_object_id, d.source_bytes, d.build_manifest_digest, d.deployment_manifest_digest,
    d.state, CASE WHEN e.current_deployment_id = d.id THEN 1 ELSE 0 END AS is_current, d.error,
    d.streams, d.promoted_ms, d.promotion_reason, d.api_version, d.sdk_version, d.cli_version,
    d.created_ms, d.building_ms, d.built_ms, d.deployed_ms, d.failed_ms
FROM deployments d JOIN environments e ON e.id = d.environment_id;

CREATE VIEW task_objects AS
SELECT t.id, t.task_id, t.deployment_id, d.version AS deployment_version, t.file_path,
    t.export_name, t.sandbox_id, t.accepts_payload, t.max_duration_seconds, t.queue, t.ttl_ms,
    t.retry_policy, t.secrets, t.schedules, t.environment_id,
    CASE WHEN e.current_deployment_id = d.id THEN 1 ELSE 0 END AS is_current
FROM deployment_tasks t
JOIN deployments d ON d.id = t.deployment_id
JOIN environments e ON e.id = t.environment_id;
