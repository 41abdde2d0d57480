-- name: usage_lock (environment) -> workspaces, storage_bytes, workspaces_max, storage_bytes_max
-- Makes the row when there is none. It is the last that a transaction locks, but for the log.
INSERT INTO environment_usage (environment_id, workspaces, storage_bytes) VALUES ($1, 0, 0)
ON CONFLICT (environment_id) DO UPDATE SET workspaces = environment_usage.workspaces
RETURNING workspaces, storage_bytes,
    (SELECT e.workspaces_max FROM environments e WHERE e.id = $1),
    (SELECT e.storage_bytes_max FROM environments e WHERE e.id = $1);

-- name: usage_read (environment) -> workspaces, storage_bytes, workspaces_max, storage_bytes_max
SELECT coalesce(u.workspaces, 0), coalesce(u.storage_bytes, 0), e.workspaces_max,
    e.storage_bytes_max
FROM environments e LEFT JOIN environment_usage u ON u.environment_id = e.id WHERE e.id = $1;

-- name: usage_change (environment, workspaces, storage)
UPDATE environment_usage SET workspaces = workspaces + $2, storage_bytes = storage_bytes + $3
WHERE environment_id = $1;

-- name: storage_new (environment, owner) -> bytes
-- Of what the owner refers to, that which no version of the environment has.
SELECT CAST(coalesce(sum(coalesce(o.stored_bytes, o.size_bytes, 0)), 0) AS BIGINT)
FROM object_refs r
JOIN objects o ON o.id = r.object_id
LEFT JOIN environment_objects c ON c.environment_id = $1 AND c.object_id = r.object_id
WHERE r.owner_id = $2 AND c.object_id IS NULL;

-- name: storage_count (environment, owner)
INSERT INTO environment_objects (environment_id, object_id, n_versions, stored_bytes)
SELECT CAST($1 AS TEXT), r.object_id, 1, coalesce(o.stored_bytes, o.size_bytes, 0)
FROM object_refs r JOIN objects o ON o.id = r.object_id WHERE r.owner_id = $2
ON CONFLICT (environment_id, object_id)
    DO UPDATE SET n_versions = environment_objects.n_versions + 1;

-- name: storage_last (environment, owner) -> bytes
-- Of what the owner refers to, that which no other version of the environment has.
SELECT CAST(coalesce(sum(c.stored_bytes), 0) AS BIGINT)
FROM object_refs r
JOIN environment_objects c ON c.environment_id = $1 AND c.object_id = r.object_id
WHERE r.owner_id = $2 AND c.n_versions = 1;

-- name: storage_uncount (environment, owner)
UPDATE environment_objects SET n_versions = n_versions - 1
WHERE environment_id = $1
    AND object_id IN (SELECT r.object_id FROM object_refs r WHERE r.owner_id = $2);

-- name: storage_forget (environment, owner)
DELETE FROM environment_objects
WHERE environment_id = $1 AND n_versions <= 0
    AND object_id IN (SELECT r.object_id FROM object_refs r WHERE r.owner_id = $2);

-- name: storage_of_object (environment, object) -> bytes, is_counted
SELECT coalesce(o.stored_bytes, o.size_bytes, 0),
    CASE WHEN EXISTS (SELECT 1 FROM environment_objects c
        WHERE c.environment_id = $1 AND c.object_id = o.id) THEN 1 ELSE 0 END
FROM objects o WHERE o.id = $2;

-- name: purge_environment_objects (environment)
DELETE FROM environment_objects WHERE environment_id = $1;

-- name: purge_environment_usage (environment)
DELETE FROM environment_usage WHERE environment_id = $1;

-- name: purge_workspace_tags (environment)
DELETE FROM workspace_tags WHERE environment_id = $1;
