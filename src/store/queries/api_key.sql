-- name: api_key_find (hash) -> id, name, scopes, expires_ms, last_used_ms, revoked_ms, key_hash, environment_id, environment_slug, project_id, project_slug, organization_id, role, status
SELECT k.id, k.name, k.scopes, k.expires_ms, k.last_used_ms, k.revoked_ms, k.key_hash, e.id,
    e.slug, p.id, p.slug, p.organization_id, m.role, m.status
FROM api_keys k
JOIN environments e ON e.id = k.environment_id
JOIN projects p ON p.id = e.project_id
LEFT JOIN members m ON m.user_id = k.created_by AND m.organization_id = p.organization_id
WHERE k.key_hash = $1;

-- name: api_key_touch (id, now)
UPDATE api_keys SET last_used_ms = $2 WHERE id = $1;

-- name: api_key_insert (id, environment, name, prefix, hash, key_id, scopes, created_by, now, expires)
INSERT INTO api_keys (id, environment_id, name, key_prefix, key_hash, key_id, scopes, created_by,
    created_ms, expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: api_key_list (environment, filter, now, before, limit) -> id, name, key_prefix, scopes, created_by, created_ms, expires_ms, last_used_ms, revoked_ms
SELECT id, name, key_prefix, scopes, created_by, created_ms, expires_ms, last_used_ms, revoked_ms
FROM api_keys
WHERE environment_id = $1 AND id < $4 AND (CAST($2 AS TEXT) = 'all'
    OR (CAST($2 AS TEXT) = 'revoked' AND revoked_ms IS NOT NULL)
    OR (CAST($2 AS TEXT) = 'expired' AND revoked_ms IS NULL AND expires_ms <= $3)
    OR (CAST($2 AS TEXT) = 'active' AND revoked_ms IS NULL
        AND (expires_ms IS NULL OR expires_ms > $3)))
ORDER BY id DESC LIMIT $5;

-- name: api_key_revoke (environment, id, now)
UPDATE api_keys SET revoked_ms = coalesce(revoked_ms, $3) WHERE environment_id = $1 AND id = $2;
