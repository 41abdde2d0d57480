-- Workspaces as things of their own: made, branched, tagged, archived and deleted without a run, and
-- counted against what their environment may have.

-- create_fingerprint is of the request that made it, which a later one with the same external_id is
-- compared with. is_counted: it was made on purpose, not for a run, and counts until it is deleted.
ALTER TABLE workspaces ADD COLUMN create_fingerprint BYTEA;
ALTER TABLE workspaces ADD COLUMN is_counted BIGINT NOT NULL DEFAULT 0;

CREATE INDEX workspaces_environment ON workspaces (environment_id, id);
CREATE INDEX workspaces_deleting ON workspaces (updated_ms) WHERE state = 'deleting';
-- What a version is the current one of.
CREATE INDEX workspaces_current ON workspaces (current_version_id);

CREATE TABLE workspace_tags (
    environment_id TEXT NOT NULL REFERENCES environments (id),
    tag TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspaces (id),
    PRIMARY KEY (environment_id, tag, workspace_id)
);

CREATE INDEX workspace_tags_workspace ON workspace_tags (workspace_id);

-- parent_id is the version that was the current one when this came to be, or the one a branch was
-- made from: its row may be gone.
ALTER TABLE versions ADD COLUMN parent_id TEXT;
ALTER TABLE versions ADD COLUMN attempt BIGINT;

CREATE INDEX versions_kept ON versions (kind, created_ms) WHERE state = 'ready';
CREATE INDEX runs_base ON runs (base_version_id);
CREATE INDEX runs_result ON runs (result_version_id) WHERE finished_ms IS NULL;
CREATE INDEX checkpoints_version ON checkpoints (version_id)
    WHERE state IN ('creating', 'staged', 'ready');
CREATE INDEX mounts_base ON mounts (base_version_id)
    WHERE state IN ('mounting', 'mounted', 'unmounting');

-- What must not be deleted: a version that is current somewhere, that a run or a mount began with
-- or brought forth and that is not over, or that a run which can still be forked began with.
CREATE VIEW version_needs AS
SELECT current_version_id AS version_id FROM workspaces
UNION ALL SELECT base_version_id FROM runs WHERE finished_ms IS NULL
UNION ALL SELECT result_version_id FROM runs WHERE finished_ms IS NULL
UNION ALL SELECT version_id FROM checkpoints WHERE state IN ('creating', 'staged', 'ready')
UNION ALL SELECT r.base_version_id FROM runs r WHERE EXISTS (
    SELECT 1 FROM checkpoints c WHERE c.run_id = r.id AND c.state = 'ready')
UNION ALL SELECT base_version_id FROM mounts
    WHERE state IN ('mounting', 'mounted', 'unmounting');

-- Which objects the versions of an environment are made of, each with how many of them and the bytes
-- it was counted with; and the sums, in a row that is locked last.
CREATE TABLE environment_objects (
    environment_id TEXT NOT NULL REFERENCES environments (id),
    object_id TEXT NOT NULL,
    n_versions BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    PRIMARY KEY (environment_id, object_id)
);

CREATE TABLE environment_usage (
    environment_id TEXT PRIMARY KEY REFERENCES environments (id),
    workspaces BIGINT NOT NULL,
    storage_bytes BIGINT NOT NULL
);

INSERT INTO environment_objects (environment_id, object_id, n_versions, stored_bytes)
SELECT v.environment_id, r.object_id, count(*), max(coalesce(o.stored_bytes, o.size_bytes, 0))
FROM versions v
JOIN object_refs r ON r.owner_id = v.id
JOIN objects o ON o.id = r.object_id
WHERE v.state = 'ready'
GROUP BY v.environment_id, r.object_id;

INSERT INTO environment_usage (environment_id, workspaces, storage_bytes)
SELECT environment_id, 0, sum(stored_bytes) FROM environment_objects GROUP BY environment_id;

-- A workspace as the API shows it.
CREATE VIEW workspace_objects AS
SELECT w.id, e.project_id, w.environment_id, w.sandbox_id, w.fingerprint, w.deployment_id,
    w.external_id, w.state, w.current_version_id, m.id AS mount_id, m.state AS mount_state,
    w.forked_from, w.metadata, w.tags, w.created_ms, w.updated_ms
FROM workspaces w
JOIN environments e ON e.id = w.environment_id
LEFT JOIN mounts m ON m.workspace_id = w.id AND m.state IN ('mounting', 'mounted', 'unmounting');
