-- Sessions as things of their own: found by a name of the caller's, ended in time, and continued by
-- what is sent to them.

-- start_fingerprint is of the request that made it, which a start with the same external_id is
-- compared with. request is what the start asked of its runs; the payload is with the runs.
-- continuation_error says why the newest continuation came to nothing.
ALTER TABLE sessions ADD COLUMN start_fingerprint BYTEA;
ALTER TABLE sessions ADD COLUMN request TEXT;
ALTER TABLE sessions ADD COLUMN expired_ms BIGINT;
ALTER TABLE sessions ADD COLUMN continuation_error TEXT;

CREATE INDEX sessions_environment ON sessions (environment_id, id);
CREATE INDEX sessions_status ON sessions (environment_id, status, id);
CREATE INDEX sessions_expiry ON sessions (expires_ms)
    WHERE status = 'open' AND expires_ms IS NOT NULL;

-- Who writes to a workspace.
CREATE INDEX runs_writer ON runs (workspace_id) WHERE finished_ms IS NULL;

-- A record that nobody waited for asks for one more run of its session, once.
CREATE TABLE continuations (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    session_id TEXT NOT NULL REFERENCES sessions (id),
    record_id TEXT NOT NULL UNIQUE,
    stream_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('accepted', 'claimed', 'created', 'skipped', 'failed')),
    run_id TEXT,
    error TEXT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

CREATE INDEX continuations_session ON continuations (session_id, state);
CREATE INDEX continuations_accepted ON continuations (created_ms, id) WHERE state = 'accepted';
CREATE INDEX continuations_claimed ON continuations (updated_ms) WHERE state = 'claimed';

-- A session as the API shows it. The last columns are what its activity is derived from.
CREATE VIEW session_objects AS
SELECT s.id, s.environment_id, e.project_id, s.task_id, s.initial_deployment_id,
    s.active_deployment_id, s.external_id, s.status, s.current_run_id, s.workspace_id, s.metadata,
    s.tags, s.terminal_reason, s.forked_from, s.expires_ms, s.expired_ms, s.continuation_error,
    s.created_ms, s.updated_ms, v.output, r.error, r.state AS run_state,
    CASE WHEN EXISTS (SELECT 1 FROM waits w WHERE w.run_id = r.id AND w.condition = 'pending'
        AND w.suspension IN ('hot', 'checkpointing', 'parked')) THEN 1 ELSE 0 END AS has_wait,
    CASE WHEN EXISTS (SELECT 1 FROM continuations c WHERE c.session_id = s.id
        AND c.state IN ('accepted', 'claimed')) THEN 1 ELSE 0 END AS is_continued
FROM sessions s
JOIN environments e ON e.id = s.environment_id
LEFT JOIN runs r ON r.id = s.current_run_id
LEFT JOIN run_values v ON v.run_id = r.id;
