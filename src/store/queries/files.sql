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
