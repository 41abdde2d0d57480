-- name: organization_find () -> id, slug, name
SELECT id, slug, name FROM organizations ORDER BY created_ms, id LIMIT 1;

-- name: organization_insert (id, slug, name, now)
INSERT INTO organizations (id, slug, name, created_ms) VALUES ($1, $2, $3, $4);

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
