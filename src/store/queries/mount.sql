-- name: workspace_mount_live (workspace) -> id
SELECT id FROM mounts
WHERE workspace_id = $1 AND state IN ('mounting', 'mounted', 'unmounting') LIMIT 1;

-- name: mount_insert (id, environment, workspace, lane, now)
INSERT INTO mounts (id, environment_id, workspace_id, lane_id, state, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, 'mounting', $5, $5);

-- name: mount_workspace (id) -> environment_id, workspace_id
SELECT environment_id, workspace_id FROM mounts WHERE id = $1;

-- name: mount_lock (id) -> id, environment_id, workspace_id, lane_id, state, fencing_generation, base_version_id, may_be_dirty, dispatches, lease_id, worker_id, version_operation, version_fp, created_ms, stop_requested_ms
UPDATE mounts SET updated_ms = updated_ms WHERE id = $1
RETURNING id, environment_id, workspace_id, lane_id, state, fencing_generation, base_version_id,
    may_be_dirty, dispatches, lease_id, worker_id, version_operation, version_fp, created_ms,
    stop_requested_ms;

-- name: mount_take (id) -> workspace_id
-- Whoever moves the mount or its workspace right now may wait for the lane that the claim holds: it
-- is let go.
SELECT m.workspace_id FROM mounts m JOIN workspaces w ON w.id = m.workspace_id
WHERE m.id = $1 AND m.state = 'mounting' AND m.lease_id IS NULL {skip_locked};

-- name: workspace_raise (id) -> fencing_generation, current_version_id
UPDATE workspaces SET fencing_generation = fencing_generation + 1 WHERE id = $1
RETURNING fencing_generation, current_version_id;

-- name: mount_lease (id, lease, worker, generation, base, now) -> dispatches, lease_sequence
UPDATE mounts SET lease_id = $2, worker_id = $3, fencing_generation = $4, base_version_id = $5,
    dispatches = dispatches + 1, lease_sequence = lease_sequence + 1, updated_ms = $6
WHERE id = $1 RETURNING dispatches, lease_sequence;

-- name: mount_unlease (id, now)
UPDATE mounts SET lease_id = NULL, worker_id = NULL, engine = NULL, grade = NULL,
    accelerated = NULL, updated_ms = $2
WHERE id = $1;

-- name: run_raise (run) -> fencing_generation
UPDATE workspaces SET fencing_generation = fencing_generation + 1
WHERE id = (SELECT r.workspace_id FROM runs r WHERE r.id = $1) RETURNING fencing_generation;

-- name: run_set_generation (run, generation)
UPDATE runs SET fencing_generation = $2 WHERE id = $1;

-- name: mount_to_queue (id) -> environment_id, group_id, lane_id, created_ms, cpu_millis, memory_mib, disk_mib, arch, network
SELECT m.environment_id, e.group_id, m.lane_id, m.created_ms, s.cpu_millis, s.memory_mib,
    s.disk_mib, s.arch, s.network
FROM mounts m
JOIN environments e ON e.id = m.environment_id
JOIN workspaces w ON w.id = m.workspace_id
JOIN deployment_sandboxes s ON s.deployment_id = w.deployment_id AND s.sandbox_id = w.sandbox_id
WHERE m.id = $1;

-- name: mount_grant (lease) -> lease_id, sequence, expires_ms, environment_id, project_id, project_slug, mount_id, workspace_id, fencing_generation, deployment_id, version, bundle_digest, bundle_bytes, sandbox_id, image_digest, image_id, mount_path, cpu_millis, memory_mib, disk_mib, network, base_version_id, base_manifest
SELECT l.id, l.sequence, l.expires_ms, l.environment_id, e.project_id, p.slug, m.id,
    m.workspace_id, m.fencing_generation, d.id, d.version, d.bundle_digest, o.size_bytes,
    s.sandbox_id, s.image_digest, s.image_id, s.mount_path, s.cpu_millis, s.memory_mib, s.disk_mib,
    s.network, m.base_version_id,
    (SELECT b.manifest_id FROM versions b WHERE b.id = m.base_version_id)
FROM leases l
JOIN environments e ON e.id = l.environment_id
JOIN projects p ON p.id = e.project_id
JOIN mounts m ON m.id = l.subject_id
JOIN workspaces w ON w.id = m.workspace_id
JOIN deployments d ON d.id = w.deployment_id
JOIN deployment_sandboxes s ON s.deployment_id = d.id AND s.sandbox_id = w.sandbox_id
LEFT JOIN objects o ON o.id = d.bundle_object_id
WHERE l.id = $1 AND l.subject_kind = 'mount';

-- name: mount_move_row (id, old_state, state, error, now)
UPDATE mounts SET state = CAST($3 AS TEXT), error = coalesce(CAST($4 AS TEXT), error),
    updated_ms = $5,
    mounted_ms = CASE WHEN CAST($3 AS TEXT) = 'mounted' THEN $5 ELSE mounted_ms END,
    ended_ms = CASE WHEN CAST($3 AS TEXT) IN ('unmounted', 'failed', 'lost') THEN $5
        ELSE ended_ms END
WHERE id = $1 AND state = $2;

-- name: mount_set_started (id, engine, grade, accelerated, now)
UPDATE mounts SET engine = $2, grade = $3, accelerated = $4, updated_ms = $5 WHERE id = $1;

-- name: mount_ask_stop (id, now)
UPDATE mounts SET stop_requested_ms = coalesce(stop_requested_ms, $2), updated_ms = $2
WHERE id = $1;

-- name: mount_set_dirty (id)
UPDATE mounts SET may_be_dirty = 1 WHERE id = $1 AND may_be_dirty = 0;

-- name: mount_set_version (id, operation, fingerprint, version, now)
UPDATE mounts SET version_operation = $2, version_fp = $3, may_be_dirty = 0,
    base_version_id = coalesce(CAST($4 AS TEXT), base_version_id), updated_ms = $5
WHERE id = $1;

-- name: workspace_move (id, old_state, state, now)
UPDATE workspaces SET state = $3, updated_ms = $4 WHERE id = $1 AND state = $2;

-- name: mount_get (environment, id) -> id, workspace_id, state, fencing_generation, worker_id, engine, grade, error, created_ms, mounted_ms, ended_ms
SELECT id, workspace_id, state, fencing_generation, worker_id, engine, grade, error, created_ms,
    mounted_ms, ended_ms
FROM mounts WHERE environment_id = $1 AND id = $2;

-- name: mounts_late (before, limit) -> id
SELECT id FROM mounts WHERE state = 'mounting' AND created_ms < $1 ORDER BY created_ms LIMIT $2;

-- name: workspace_purge_chunks (workspace)
DELETE FROM process_chunks
WHERE process_id IN (SELECT p.id FROM processes p WHERE p.workspace_id = $1);

-- name: workspace_purge_processes (workspace)
DELETE FROM processes WHERE workspace_id = $1;

-- name: workspace_purge_mounts (workspace)
DELETE FROM mounts WHERE workspace_id = $1;

-- name: purge_process_chunks (environment)
DELETE FROM process_chunks
WHERE process_id IN (SELECT p.id FROM processes p WHERE p.environment_id = $1);

-- name: purge_processes (environment)
DELETE FROM processes WHERE environment_id = $1;

-- name: purge_mounts (environment)
DELETE FROM mounts WHERE environment_id = $1;
