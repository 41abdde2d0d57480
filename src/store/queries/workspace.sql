-- name: workspace_get (environment, id) -> id, project_id, environment_id, sandbox_id, fingerprint,
--   deployment_id, external_id, state, current_version_id, mount_id, mount_state, forked_from,
--   metadata, tags, created_ms, updated_ms
SELECT id, project_id, environment_id, sandbox_id, fingerprint, deployment_id, external_id, state,
    current_version_id, mount_id, mount_state, forked_from, metadata, tags, created_ms, updated_ms
FROM workspace_objects WHERE environment_id = $1 AND id = $2;

-- name: workspace_list (environment, before, limit) -> id, project_id, environment_id, sandbox_id,
--   fingerprint, deployment_id, external_id, state, current_version_id, mount_id, mount_state,
--   forked_from, metadata, tags, created_ms, updated_ms
SELECT id, project_id, environment_id, sandbox_id, fingerprint, deployment_id, external_id, state,
    current_version_id, mount_id, mount_state, forked_from, metadata, tags, created_ms, updated_ms
FROM workspace_objects WHERE environment_id = $1 AND id < $2 AND state <> 'deleted'
ORDER BY id DESC LIMIT $3;

-- name: workspace_list_by (environment, before, limit, state, external_id, tag) -> id, project_id,
--   environment_id, sandbox_id, fingerprint, deployment_id, external_id, state, current_version_id,
--   mount_id, mount_state, forked_from, metadata, tags, created_ms, updated_ms
-- Without a state all of them.
SELECT id, project_id, environment_id, sandbox_id, fingerprint, deployment_id, external_id, state,
    current_version_id, mount_id, mount_state, forked_from, metadata, tags, created_ms, updated_ms
FROM workspace_objects o
WHERE environment_id = $1 AND id < $2
    AND (CAST($4 AS TEXT) IS NULL OR state = $4)
    AND (CAST($5 AS TEXT) IS NULL OR external_id = $5)
    AND (CAST($6 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM workspace_tags t
        WHERE t.environment_id = $1 AND t.tag = $6 AND t.workspace_id = o.id))
ORDER BY id DESC LIMIT $3;

-- name: workspace_list_tag (environment, before, limit, tag) -> id, project_id, environment_id,
--   sandbox_id, fingerprint, deployment_id, external_id, state, current_version_id, mount_id,
--   mount_state, forked_from, metadata, tags, created_ms, updated_ms
SELECT o.id, o.project_id, o.environment_id, o.sandbox_id, o.fingerprint, o.deployment_id,
    o.external_id, o.state, o.current_version_id, o.mount_id, o.mount_state, o.forked_from,
    o.metadata, o.tags, o.created_ms, o.updated_ms
FROM workspace_tags t JOIN workspace_objects o ON o.id = t.workspace_id
WHERE t.environment_id = $1 AND t.tag = $4 AND t.workspace_id < $2 AND o.state <> 'deleted'
ORDER BY t.workspace_id DESC LIMIT $3;

-- name: workspace_named (environment, external_id) -> id, create_fingerprint
SELECT id, create_fingerprint FROM workspaces WHERE environment_id = $1 AND external_id = $2;

-- name: workspace_sandbox (environment, deployment, sandbox) -> deployment_id, deployment_state,
--   sandbox_id, fingerprint
-- Of the deployment that is named, else of the current one.
SELECT d.id, d.state, s.sandbox_id, s.fingerprint
FROM environments e
LEFT JOIN deployments d ON d.environment_id = e.id
    AND d.id = coalesce(CAST($2 AS TEXT), e.current_deployment_id)
LEFT JOIN deployment_sandboxes s ON s.deployment_id = d.id AND (s.sandbox_id = $3 OR s.id = $3)
WHERE e.id = $1;

-- name: version_source (environment, id) -> workspace_id, fingerprint
SELECT w.id, w.fingerprint FROM versions v JOIN workspaces w ON w.id = v.workspace_id
WHERE v.environment_id = $1 AND v.id = $2 AND v.state = 'ready';

-- name: workspace_create (id, environment, deployment, sandbox, fingerprint, external_id, request, forked_from, metadata, tags, now)
INSERT INTO workspaces (id, environment_id, deployment_id, sandbox_id, fingerprint, external_id,
    create_fingerprint, forked_from, state, metadata, tags, is_counted, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'active', $9, $10, 1, $11, $11)
ON CONFLICT DO NOTHING;

-- name: workspace_tag_insert (environment, tag, workspace)
INSERT INTO workspace_tags (environment_id, tag, workspace_id) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING;

-- name: workspace_tags_delete (workspace)
DELETE FROM workspace_tags WHERE workspace_id = $1;

-- name: workspace_change (id, metadata, tags, state, now)
-- What is null stays as it was.
UPDATE workspaces SET metadata = coalesce(CAST($2 AS TEXT), metadata),
    tags = coalesce(CAST($3 AS TEXT), tags), state = coalesce(CAST($4 AS TEXT), state),
    updated_ms = $5
WHERE id = $1;

-- name: workspace_start_delete (id, now)
-- Its name is free from now on.
UPDATE workspaces SET state = 'deleting', external_id = NULL, updated_ms = $2 WHERE id = $1;

-- name: workspace_drop_current (id)
UPDATE workspaces SET current_version_id = NULL WHERE id = $1;

-- name: workspaces_deleting (limit) -> id, environment_id
SELECT id, environment_id FROM workspaces WHERE state = 'deleting' ORDER BY updated_ms LIMIT $1;

-- name: workspace_live_mount (workspace) -> id, state
SELECT id, state FROM mounts
WHERE workspace_id = $1 AND state IN ('mounting', 'mounted', 'unmounting');

-- name: workspace_end (id, now) -> is_counted
UPDATE workspaces SET state = 'deleted', metadata = '{}', tags = '[]', updated_ms = $2
WHERE id = $1 AND state = 'deleting' RETURNING is_counted;

-- name: workspace_chunks_delete (workspace)
-- What programs of it wrote; that they ran stays known.
DELETE FROM process_chunks
WHERE process_id IN (SELECT p.id FROM processes p WHERE p.workspace_id = $1);

-- name: versions_of_deleting (workspace, limit) -> id
SELECT v.id FROM versions v WHERE v.workspace_id = $1 AND v.state = 'ready'
    AND NOT EXISTS (SELECT 1 FROM version_needs n WHERE n.version_id = v.id)
LIMIT $2;

-- name: version_list (environment, workspace, before, limit, kind) -> id, workspace_id, parent_id,
--   kind, state, run_id, attempt, size_bytes, entries, tree_digest, created_ms, is_current
SELECT v.id, v.workspace_id, v.parent_id, v.kind, v.state, v.run_id, v.attempt, v.size_bytes,
    v.entries, v.tree_digest, v.created_ms,
    CASE WHEN v.id = w.current_version_id THEN 1 ELSE 0 END
FROM workspaces w JOIN versions v ON v.workspace_id = w.id
WHERE w.environment_id = $1 AND w.id = $2 AND v.id < $3 AND v.state = 'ready'
    AND (CAST($5 AS TEXT) IS NULL OR v.kind = $5)
ORDER BY v.id DESC LIMIT $4;

-- name: version_get (environment, workspace, id) -> id, workspace_id, parent_id, kind, state,
--   run_id, attempt, size_bytes, entries, tree_digest, created_ms, is_current
SELECT v.id, v.workspace_id, v.parent_id, v.kind, v.state, v.run_id, v.attempt, v.size_bytes,
    v.entries, v.tree_digest, v.created_ms,
    CASE WHEN v.id = w.current_version_id THEN 1 ELSE 0 END
FROM workspaces w JOIN versions v ON v.workspace_id = w.id
WHERE w.environment_id = $1 AND w.id = $2 AND v.id = $3 AND v.state = 'ready';

-- name: versions_past_system (before, limit) -> id
SELECT v.id FROM versions v
WHERE v.kind = 'system' AND v.state = 'ready' AND v.created_ms < $1
    AND NOT EXISTS (SELECT 1 FROM version_needs n WHERE n.version_id = v.id)
ORDER BY v.created_ms LIMIT $2;

-- name: versions_past_user (before, kept, limit) -> id
-- Of each workspace the newest ones stay, however old they are.
SELECT v.id FROM versions v
WHERE v.kind = 'user' AND v.state = 'ready' AND v.created_ms < $1
    AND NOT EXISTS (SELECT 1 FROM version_needs n WHERE n.version_id = v.id)
    AND (SELECT count(*) FROM versions o WHERE o.workspace_id = v.workspace_id
        AND o.kind = 'user' AND o.state = 'ready' AND o.id > v.id) >= $2
ORDER BY v.created_ms LIMIT $3;

-- name: versions_left (workspace)
-- What something else still needs when its workspace goes is kept as long as that, and no longer.
UPDATE versions SET kind = 'system' WHERE workspace_id = $1 AND state = 'ready';
