-- name: organization_find () -> id, slug, name
SELECT id, slug, name FROM organizations ORDER BY created_ms, id LIMIT 1;

-- name: organization_insert (id, slug, name, now)
INSERT INTO organizations (id, slug, name, created_ms) VALUES ($1, $2, $3, $4);


-- name: worker_group_upsert (id, organization, name, now)
INSERT INTO worker_groups (id, organization_id, name, state, created_ms)
VALUES ($1, $2, $3, 'active', $4)
ON CONFLICT (organization_id, name) DO NOTHING;

-- name: worker_group_find (organization, name) -> id
SELECT id FROM worker_groups WHERE organization_id = $1 AND name = $2;

-- name: project_insert (id, organization, slug, name, is_default, now)
INSERT INTO projects (id, organization_id, slug, name, is_default, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (organization_id, slug) DO NOTHING;

-- name: environment_insert (id, project, slug, name, color, is_default, group, now)
INSERT INTO environments (id, project_id, slug, name, color_hex, is_default, group_id,
    created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
ON CONFLICT (project_id, slug) DO NOTHING;

-- name: user_insert (id, email, display_name, now)
INSERT INTO users (id, email, display_name, created_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (email) DO NOTHING;

-- name: user_find_by_email (email) -> id, display_name
SELECT id, display_name FROM users WHERE email = $1;

-- name: member_insert (organization, user, role, now)
INSERT INTO members (organization_id, user_id, role, status, created_ms)
VALUES ($1, $2, $3, 'active', $4)
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- name: user_session_insert (id, user, hash, key_id, now, expires)
INSERT INTO user_sessions (id, user_id, token_hash, key_id, created_ms, expires_ms, used_ms)
VALUES ($1, $2, $3, $4, $5, $6, $5);

-- name: user_session_find (hash) -> id, user_id, email, display_name, expires_ms, used_ms, revoked_ms, organization_id, role, status
SELECT s.id, s.user_id, u.email, u.display_name, s.expires_ms, s.used_ms, s.revoked_ms,
    m.organization_id, m.role, m.status
FROM user_sessions s
JOIN users u ON u.id = s.user_id
JOIN members m ON m.user_id = u.id
WHERE s.token_hash = $1;

-- name: user_session_touch (id, now)
UPDATE user_sessions SET used_ms = $2 WHERE id = $1;

-- name: user_session_revoke (id, now)
UPDATE user_sessions SET revoked_ms = $2 WHERE id = $1 AND revoked_ms IS NULL;

-- name: api_key_find (hash) -> id, name, scopes, expires_ms, last_used_ms, revoked_ms, environment_id, environment_slug, project_id, project_slug, organization_id, role, status
SELECT k.id, k.name, k.scopes, k.expires_ms, k.last_used_ms, k.revoked_ms, e.id, e.slug, p.id,
    p.slug, p.organization_id, m.role, m.status
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

-- name: environment_default () -> id, slug, project_id, project_slug
SELECT e.id, e.slug, p.id, p.slug
FROM projects p JOIN environments e ON e.project_id = p.id AND e.is_default = 1
WHERE p.is_default = 1 LIMIT 1;

-- name: environment_find (project, environment) -> id, slug, project_id, project_slug
SELECT e.id, e.slug, p.id, p.slug
FROM projects p JOIN environments e ON e.project_id = p.id
WHERE (p.id = $1 OR p.slug = $1) AND (e.id = $2 OR e.slug = $2) LIMIT 1;

-- name: project_list (before, limit) -> id, slug, name, is_default, created_ms, updated_ms
SELECT id, slug, name, is_default, created_ms, updated_ms FROM projects
WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: project_find (project) -> id, slug, name, is_default, created_ms, updated_ms
SELECT id, slug, name, is_default, created_ms, updated_ms FROM projects
WHERE id = $1 OR slug = $1 LIMIT 1;

-- name: environment_list (project) -> id, project_id, slug, name, color_hex, is_default, group_name, min_grade, workspaces_max, storage_bytes_max, created_ms, updated_ms
SELECT e.id, e.project_id, e.slug, e.name, e.color_hex, e.is_default, g.name, e.min_grade,
    e.workspaces_max, e.storage_bytes_max, e.created_ms, e.updated_ms
FROM environments e JOIN worker_groups g ON g.id = e.group_id
WHERE e.project_id = $1 ORDER BY e.id;

-- name: key_id_check (key_id) -> key_id
SELECT key_id FROM (
    SELECT key_id FROM api_keys
    UNION SELECT key_id FROM user_sessions
    UNION SELECT key_id FROM workers) known
WHERE key_id <> $1 LIMIT 1;
