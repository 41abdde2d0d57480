-- Waits, the tokens that people answer, and the checkpoints of runs that are parked meanwhile.

-- A run's blocking stop. `condition` says whether it has happened, `suspension` where the sandbox
-- is; both move by compare-and-set. `op` is the program's number of the operation that opened it.
CREATE TABLE waits (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    run_id TEXT NOT NULL REFERENCES runs (id),
    attempt BIGINT NOT NULL,
    lease_id TEXT,
    op BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('stream', 'token', 'timer')),
    condition TEXT NOT NULL CHECK (condition IN ('pending', 'completed', 'expired', 'cancelled',
        'failed')),
    suspension TEXT NOT NULL CHECK (suspension IN ('hot', 'checkpointing', 'parked',
        'resume_pending', 'resuming', 'released', 'failed', 'cancelled')),
    params TEXT NOT NULL DEFAULT '{}',
    metadata TEXT NOT NULL DEFAULT '{}',
    tags TEXT NOT NULL DEFAULT '[]',
    timeout TEXT,
    timeout_at_ms BIGINT,
    due_ms BIGINT,
    token_id TEXT,
    owns_token BIGINT NOT NULL DEFAULT 0 CHECK (owns_token IN (0, 1)),
    decision TEXT,
    resume_version BIGINT NOT NULL DEFAULT 0,
    resume_number BIGINT NOT NULL DEFAULT 0,
    checkpoint_id TEXT,
    checkpoint_failures BIGINT NOT NULL DEFAULT 0,
    park_at_ms BIGINT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    settled_ms BIGINT,
    released_ms BIGINT
);

CREATE INDEX waits_run ON waits (run_id, created_ms, id);
CREATE INDEX waits_token ON waits (token_id) WHERE token_id IS NOT NULL AND condition = 'pending';
CREATE INDEX waits_due ON waits (due_ms) WHERE condition = 'pending' AND due_ms IS NOT NULL;
CREATE INDEX waits_timeout ON waits (timeout_at_ms)
    WHERE condition = 'pending' AND timeout_at_ms IS NOT NULL;
CREATE INDEX waits_resuming ON waits (updated_ms) WHERE suspension = 'resuming';

-- One blocking wait at a time.
CREATE UNIQUE INDEX waits_open ON waits (run_id)
    WHERE suspension IN ('hot', 'checkpointing', 'parked', 'resume_pending', 'resuming');

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    run_id TEXT REFERENCES runs (id),
    status TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'cancelled', 'expired')),
    timeout_at_ms BIGINT NOT NULL,
    data TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    tags TEXT NOT NULL DEFAULT '[]',
    callback_hash BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    public_access_token_id TEXT NOT NULL,
    completed_by TEXT,
    cancel_reason TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    completed_ms BIGINT
);

CREATE INDEX tokens_environment ON tokens (environment_id, id);
CREATE INDEX tokens_status ON tokens (environment_id, status, id);
CREATE INDEX tokens_timeout ON tokens (timeout_at_ms) WHERE status = 'pending';

CREATE TABLE public_access_tokens (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    token_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    scope_type TEXT NOT NULL CHECK (scope_type IN ('token.complete', 'session.input.send',
        'session.output.read')),
    scope TEXT NOT NULL,
    token_id TEXT,
    max_uses BIGINT,
    uses BIGINT NOT NULL DEFAULT 0,
    expires_ms BIGINT NOT NULL,
    revoked_ms BIGINT,
    created_ms BIGINT NOT NULL
);

CREATE INDEX public_access_tokens_environment ON public_access_tokens (environment_id, id);

-- The server cannot read a checkpoint: its key is the workers'.
CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    run_id TEXT NOT NULL REFERENCES runs (id),
    wait_id TEXT NOT NULL REFERENCES waits (id),
    attempt BIGINT NOT NULL,
    lease_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('creating', 'staged', 'ready', 'invalid', 'deleted')),
    manifest_id TEXT,
    key_id TEXT,
    compat TEXT,
    compat_facts TEXT NOT NULL DEFAULT '{}',
    op BIGINT,
    can_fork BIGINT NOT NULL DEFAULT 0 CHECK (can_fork IN (0, 1)),
    version_id TEXT,
    logical_bytes BIGINT NOT NULL DEFAULT 0,
    stored_bytes BIGINT NOT NULL DEFAULT 0,
    created_ms BIGINT NOT NULL,
    staged_ms BIGINT,
    ready_ms BIGINT,
    ended_ms BIGINT
);

CREATE INDEX checkpoints_run ON checkpoints (run_id, created_ms, id);
CREATE INDEX checkpoints_wait ON checkpoints (wait_id);
CREATE INDEX checkpoints_open ON checkpoints (created_ms) WHERE state IN ('creating', 'staged');

-- What a version of a workspace is made of, and what keeps its objects.
CREATE TABLE versions (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    run_id TEXT REFERENCES runs (id),
    kind TEXT NOT NULL CHECK (kind IN ('user', 'system')),
    state TEXT NOT NULL CHECK (state IN ('ready', 'deleted')),
    manifest_id TEXT NOT NULL,
    tree_digest TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    entries BIGINT NOT NULL,
    created_ms BIGINT NOT NULL
);

CREATE INDEX versions_workspace ON versions (workspace_id, id);
CREATE INDEX versions_run ON versions (run_id, id);

-- Whoever is named here keeps the object: a checkpoint or a version, never both ends gone.
CREATE TABLE object_refs (
    owner_id TEXT NOT NULL,
    object_id TEXT NOT NULL,
    PRIMARY KEY (owner_id, object_id)
);

CREATE INDEX object_refs_object ON object_refs (object_id);

ALTER TABLE workspaces ADD COLUMN forked_from TEXT;
ALTER TABLE sessions ADD COLUMN forked_from TEXT;
