-- name: version_insert (id, run, kind, manifest, tree_digest, bytes, entries, now)
INSERT INTO versions (id, environment_id, workspace_id, run_id, attempt, parent_id, kind, state,
    manifest_id, tree_digest, size_bytes, entries, created_ms)
SELECT $1, r.environment_id, r.workspace_id, r.id, r.attempt, r.base_version_id, $3, 'ready', $4,
    $5, $6, $7, $8
FROM runs r WHERE r.id = $2;

-- name: version_insert_in (id, environment, workspace, parent, manifest, tree_digest, bytes, entries, now)
INSERT INTO versions (id, environment_id, workspace_id, parent_id, kind, state, manifest_id,
    tree_digest, size_bytes, entries, created_ms)
VALUES ($1, $2, $3, $4, 'user', 'ready', $5, $6, $7, $8, $9);

-- name: version_insert_beside (id, subject, manifest, tree_digest, bytes, entries, now) -> environment_id
-- What a run or a mount holds right now: current for nobody.
INSERT INTO versions (id, environment_id, workspace_id, run_id, attempt, parent_id, kind, state,
    manifest_id, tree_digest, size_bytes, entries, created_ms)
SELECT $1, s.environment_id, s.workspace_id, s.run_id, s.attempt, s.base_version_id, 'system',
    'ready', $3, $4, $5, $6, $7
FROM (
    SELECT r.id, r.environment_id, r.workspace_id, r.id AS run_id, r.attempt, r.base_version_id
    FROM runs r
    UNION ALL
    SELECT m.id, m.environment_id, m.workspace_id, NULL, NULL, m.base_version_id FROM mounts m
) s
WHERE s.id = $2
RETURNING environment_id;

-- name: snapshot_lease (environment, subject) -> lease_id, worker_id
-- Of the sandbox that a workspace, or a run, is in right now.
SELECT l.id, l.worker_id FROM mounts m JOIN leases l ON l.id = m.lease_id
WHERE m.environment_id = $1 AND m.workspace_id = $2 AND m.state = 'mounted' AND l.live = 1
UNION ALL
SELECT l.id, l.worker_id
FROM runs r JOIN leases l ON l.subject_kind = 'run' AND l.subject_id = r.id
WHERE r.environment_id = $1 AND (r.workspace_id = $2 OR r.id = $2) AND r.finished_ms IS NULL
    AND l.live = 1 AND l.state = 'running'
LIMIT 1;

-- name: version_hold (environment, id) -> workspace_id, manifest_id, tree_digest, size_bytes, entries
-- Locks it, so that it is not deleted meanwhile.
UPDATE versions SET state = state WHERE environment_id = $1 AND id = $2 AND state = 'ready'
RETURNING workspace_id, manifest_id, tree_digest, size_bytes, entries;

-- name: workspace_advance (workspace, version, base, generation, now)
-- Only from the version that the new one was made from, and for the mount of that generation; a
-- negative one is the server itself.
UPDATE workspaces SET current_version_id = $2, updated_ms = $5
WHERE id = $1 AND state <> 'deleted'
    AND current_version_id IS NOT DISTINCT FROM CAST($3 AS TEXT)
    AND (CAST($4 AS BIGINT) < 0 OR fencing_generation = $4);

-- name: run_set_result_version (run, version, now)
UPDATE runs SET result_version_id = $2, updated_ms = $3 WHERE id = $1;

-- name: workspace_set_current (run, version, now)
-- Only from the version the run began with, and by the newest writer: of two one is too late.
UPDATE workspaces SET current_version_id = $2, updated_ms = $3
WHERE id = (SELECT r.workspace_id FROM runs r WHERE r.id = $1)
    AND fencing_generation = (SELECT r.fencing_generation FROM runs r WHERE r.id = $1)
    AND current_version_id IS NOT DISTINCT FROM
        (SELECT r.base_version_id FROM runs r WHERE r.id = $1);

-- name: purge_version_refs (environment)
DELETE FROM object_refs WHERE owner_id IN (SELECT id FROM versions WHERE environment_id = $1);

-- name: purge_versions (environment)
DELETE FROM versions WHERE environment_id = $1;

-- name: version_manifest (environment, id) -> manifest_id
SELECT manifest_id FROM versions WHERE environment_id = $1 AND id = $2 AND state = 'ready';

-- name: run_versions (environment, run) -> base_version_id, result_version_id
SELECT base_version_id, result_version_id FROM runs WHERE environment_id = $1 AND id = $2;

-- name: workspace_versions (environment, workspace) -> previous_version_id, current_version_id
SELECT (SELECT v.id FROM versions v WHERE v.workspace_id = w.id AND v.kind = 'user'
        AND v.state = 'ready' AND v.id < w.current_version_id ORDER BY v.id DESC LIMIT 1),
    w.current_version_id
FROM workspaces w
WHERE w.environment_id = $1 AND w.id = $2 AND w.state <> 'deleted';

-- name: version_retire (id) -> environment_id
-- Unless something needs it.
UPDATE versions SET state = 'deleted' WHERE id = $1 AND state = 'ready'
    AND NOT EXISTS (SELECT 1 FROM version_needs n WHERE n.version_id = $1)
RETURNING environment_id;

-- name: run_environment (run) -> environment_id
SELECT environment_id FROM runs WHERE id = $1;
