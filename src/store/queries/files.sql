-- name: files_version (environment, workspace, version) -> current_version_id, id, manifest_id, created_ms
-- The version that is asked for, or the current one. A fork begins with a version of another
-- workspace.
SELECT w.current_version_id, v.id, v.manifest_id, v.created_ms
FROM workspaces w
LEFT JOIN versions v ON v.id = coalesce(CAST($3 AS TEXT), w.current_version_id)
    AND v.environment_id = w.environment_id AND v.state = 'ready'
    AND (v.workspace_id = w.id OR v.id = w.current_version_id)
WHERE w.environment_id = $1 AND w.id = $2 AND w.state <> 'deleted';

-- name: files_base (environment, workspace) -> state, current_version_id, manifest_id, size_bytes, entries
SELECT w.state, w.current_version_id, v.manifest_id, v.size_bytes, v.entries
FROM workspaces w LEFT JOIN versions v ON v.id = w.current_version_id
WHERE w.environment_id = $1 AND w.id = $2 AND w.state <> 'deleted';

-- name: files_mount (environment, workspace) -> lease_id, worker_id
SELECT m.lease_id, m.worker_id
FROM workspaces w LEFT JOIN mounts m ON m.workspace_id = w.id AND m.state = 'mounted'
WHERE w.environment_id = $1 AND w.id = $2 AND w.state <> 'deleted';

-- name: file_request_insert (id, call, part, lease, now)
INSERT INTO file_requests (id, call_id, part, lease_id, created_ms) VALUES ($1, $2, $3, $4, $5);

-- name: file_request_answer (id, lease, code, reason, data, size, more, now) -> call_id
UPDATE file_requests SET code = $3, reason = $4, data = $5, size_bytes = $6, more = $7,
    answered_ms = $8
WHERE id = $1 AND lease_id = $2 AND answered_ms IS NULL RETURNING call_id;

-- name: file_requests_of (call) -> part, code, reason, data, size_bytes, more, answered_ms
SELECT part, code, reason, data, size_bytes, more, answered_ms FROM file_requests
WHERE call_id = $1 ORDER BY part;

-- name: file_requests_delete (call, before)
-- Those of the call, and those that nobody has come back for.
DELETE FROM file_requests WHERE call_id = $1 OR created_ms < $2;
