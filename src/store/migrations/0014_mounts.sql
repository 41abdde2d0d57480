-- Workspaces that are mounted without a run, and the commands and terminals in them.

-- The wish for a sandbox with the workspace in it, and what became of it. It is the subject of a
-- lease and stands in the queue while it is mounting and no worker has it. may_be_dirty: programs
-- have run in it since its last version.
CREATE TABLE mounts (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    lane_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('mounting', 'mounted', 'unmounting', 'unmounted',
        'failed', 'lost')),
    fencing_generation BIGINT NOT NULL DEFAULT 0,
    base_version_id TEXT,
    may_be_dirty BIGINT NOT NULL DEFAULT 0 CHECK (may_be_dirty IN (0, 1)),
    dispatches BIGINT NOT NULL DEFAULT 0,
    lease_sequence BIGINT NOT NULL DEFAULT 0,
    lease_id TEXT,
    worker_id TEXT,
    engine TEXT,
    grade TEXT,
    accelerated BIGINT,
    version_operation TEXT,
    version_fp TEXT,
    error TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    mounted_ms BIGINT,
    stop_requested_ms BIGINT,
    ended_ms BIGINT
);

-- One writer: a workspace has one mount that is not over.
CREATE UNIQUE INDEX mounts_live ON mounts (workspace_id)
    WHERE state IN ('mounting', 'mounted', 'unmounting');
CREATE INDEX mounts_workspace ON mounts (workspace_id, id);
CREATE INDEX mounts_mounting ON mounts (created_ms) WHERE state = 'mounting';

-- kind exec: queued running exited failed lost; pty: starting open closed failed lost. live: not
-- over. out_end, err_end: bytes of output that are stored; a terminal has one stream, the first.
-- input_end: bytes accepted, input_taken: of those, bytes that the program was given. env_sealed is
-- there until the process began. due_ms is when due_signal is sent.
CREATE TABLE processes (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    mount_id TEXT NOT NULL REFERENCES mounts (id),
    kind TEXT NOT NULL CHECK (kind IN ('exec', 'pty')),
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'exited', 'starting', 'open',
        'closed', 'failed', 'lost')),
    live BIGINT NOT NULL CHECK (live IN (0, 1)),
    command TEXT NOT NULL DEFAULT '[]',
    cwd TEXT,
    env_names TEXT NOT NULL DEFAULT '[]',
    env_sealed BYTEA,
    detached BIGINT NOT NULL DEFAULT 0 CHECK (detached IN (0, 1)),
    timeout_ms BIGINT,
    cols BIGINT NOT NULL DEFAULT 0,
    rows BIGINT NOT NULL DEFAULT 0,
    pid BIGINT,
    exit_code BIGINT,
    signal TEXT,
    error TEXT,
    out_end BIGINT NOT NULL DEFAULT 0,
    err_end BIGINT NOT NULL DEFAULT 0,
    input_end BIGINT NOT NULL DEFAULT 0,
    input_taken BIGINT NOT NULL DEFAULT 0,
    input_closed_ms BIGINT,
    due_ms BIGINT,
    due_signal TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    started_ms BIGINT,
    ended_ms BIGINT,
    CHECK ((live = 1) = (state IN ('queued', 'running', 'starting', 'open')))
);

CREATE INDEX processes_workspace ON processes (workspace_id, kind, id);
CREATE INDEX processes_live ON processes (mount_id, id) WHERE live = 1;
CREATE INDEX processes_waiting ON processes (created_ms) WHERE state IN ('queued', 'starting');
CREATE INDEX processes_due ON processes (due_ms) WHERE due_ms IS NOT NULL;

-- Output, addressed by byte offset, the last 16 MiB of each stream; and input until the program
-- was given it.
CREATE TABLE process_chunks (
    process_id TEXT NOT NULL,
    stream TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr', 'output', 'input')),
    offset_start BIGINT NOT NULL,
    offset_end BIGINT NOT NULL,
    id TEXT NOT NULL,
    bytes BYTEA NOT NULL,
    observed_ms BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (process_id, stream, offset_start)
);

-- The generation of the workspace when the run was last given to a worker.
ALTER TABLE runs ADD COLUMN fencing_generation BIGINT NOT NULL DEFAULT 0;
