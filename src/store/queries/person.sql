-- name: organization_setup (local_owner) -> id, setup_hash, setup_ms, n_owners
SELECT o.id, o.setup_hash, o.setup_ms, (
    SELECT count(*) FROM members m JOIN users u ON u.id = m.user_id
    WHERE m.organization_id = o.id AND m.role = 'owner' AND m.status = 'active'
        AND (u.password_hash IS NOT NULL OR u.email <> $1))
FROM organizations o ORDER BY o.created_ms, o.id LIMIT 1;

-- name: organization_offer_setup (id, hash)
UPDATE organizations SET setup_hash = $2 WHERE id = $1 AND setup_ms IS NULL;

-- name: organization_set_up (id, now)
UPDATE organizations SET setup_ms = $2, setup_hash = NULL WHERE id = $1 AND setup_ms IS NULL;

-- name: organization_rename (id, slug, name)
UPDATE organizations SET slug = $2, name = $3 WHERE id = $1;

-- name: organization_lock (id)
UPDATE organizations SET created_ms = created_ms WHERE id = $1;

-- name: person_find (email) -> id, password_hash, status
SELECT u.id, u.password_hash, m.status
FROM users u LEFT JOIN members m ON m.user_id = u.id
WHERE u.email = $1;

-- name: person_password (id) -> email, password_hash
SELECT email, password_hash FROM users WHERE id = $1;

-- name: person_upsert (id, email, display_name, password_hash, now) -> id
INSERT INTO users (id, email, display_name, password_hash, created_ms) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (email) DO UPDATE SET
    display_name = excluded.display_name,
    password_hash = coalesce(excluded.password_hash, users.password_hash)
RETURNING id;

-- name: person_password_swap (id, old, new)
UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2;

-- name: person_password_set (id, new)
UPDATE users SET password_hash = $2 WHERE id = $1;

-- name: member_put (organization, user, role, now)
INSERT INTO members (organization_id, user_id, role, status, created_ms)
VALUES ($1, $2, $3, 'active', $4)
ON CONFLICT (organization_id, user_id) DO UPDATE SET role = excluded.role, status = 'active';

-- name: user_session_rotate (id, hash, key_id)
UPDATE user_sessions SET token_hash = $2, key_id = $3 WHERE id = $1 AND revoked_ms IS NULL;

-- name: user_session_revoke_by_hash (hash, now)
UPDATE user_sessions SET revoked_ms = $2 WHERE token_hash = $1 AND revoked_ms IS NULL;

-- name: user_sessions_revoke (user, but, now)
UPDATE user_sessions SET revoked_ms = $3 WHERE user_id = $1 AND id <> $2 AND revoked_ms IS NULL;

-- name: api_keys_revoke_of (user, now)
UPDATE api_keys SET revoked_ms = $2 WHERE created_by = $1 AND revoked_ms IS NULL;

-- name: member_list (organization, after, limit) -> user_id, email, display_name, role, status, created_ms
SELECT m.user_id, u.email, u.display_name, m.role, m.status, m.created_ms
FROM members m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 AND m.user_id < $2 ORDER BY m.user_id DESC LIMIT $3;

-- name: member_find (organization, user) -> user_id, email, display_name, role, status, created_ms
SELECT m.user_id, u.email, u.display_name, m.role, m.status, m.created_ms
FROM members m JOIN users u ON u.id = m.user_id
WHERE m.organization_id = $1 AND m.user_id = $2;

-- name: member_change (organization, user, role, status)
UPDATE members SET role = $3, status = $4 WHERE organization_id = $1 AND user_id = $2;

-- name: member_delete (organization, user)
DELETE FROM members WHERE organization_id = $1 AND user_id = $2;

-- name: member_other_owners (organization, user, local_owner) -> n
SELECT count(*) FROM members m
JOIN users u ON u.id = m.user_id
JOIN organizations o ON o.id = m.organization_id
WHERE m.organization_id = $1 AND m.user_id <> $2 AND m.role = 'owner' AND m.status = 'active'
    AND (u.password_hash IS NOT NULL OR u.email <> $3 OR o.setup_ms IS NULL);

-- name: password_reset_insert (hash, key_id, user, now, expires)
INSERT INTO password_resets (token_hash, key_id, user_id, created_ms, expires_ms)
VALUES ($1, $2, $3, $4, $5);

-- name: password_reset_find (hash, now) -> user_id
SELECT user_id FROM password_resets WHERE token_hash = $1 AND expires_ms > $2;

-- name: password_reset_take (hash, now) -> user_id
DELETE FROM password_resets WHERE token_hash = $1 AND expires_ms > $2 RETURNING user_id;

-- name: password_resets_drop (user)
DELETE FROM password_resets WHERE user_id = $1;

-- name: invitation_insert (id, organization, email, role, hash, key_id, invited_by, now, expires)
INSERT INTO invitations (id, organization_id, email, role, status, token_hash, key_id, invited_by,
    created_ms, expires_ms)
VALUES ($1, $2, $3, $4, 'pending', $5, $6, $7, $8, $9);

-- name: invitation_list (organization, before, limit) -> id, email, role, status, expires_ms, created_ms
SELECT id, email, role, status, expires_ms, created_ms FROM invitations
WHERE organization_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: invitation_find (hash) -> id, organization_id, email, role, status, expires_ms
SELECT id, organization_id, email, role, status, expires_ms FROM invitations WHERE token_hash = $1;

-- name: invitation_find_by_email (email, now) -> id, organization_id, email, role
SELECT id, organization_id, email, role FROM invitations
WHERE email = $1 AND status = 'pending' AND expires_ms > $2 ORDER BY id DESC LIMIT 1;

-- name: invitation_settle (id, status, now)
UPDATE invitations SET status = $2, settled_ms = $3 WHERE id = $1 AND status = 'pending';

-- name: invitation_revoke (organization, id, now)
UPDATE invitations SET status = 'revoked', settled_ms = $3
WHERE organization_id = $1 AND id = $2 AND status = 'pending';

-- name: invitation_get (organization, id) -> status, role
SELECT status, role FROM invitations WHERE organization_id = $1 AND id = $2;

-- name: invitations_revoke_of (email, now)
UPDATE invitations SET status = 'revoked', settled_ms = $2 WHERE email = $1 AND status = 'pending';

-- name: device_code_insert (device, user, key_id, now, expires)
INSERT INTO device_codes (device_hash, user_hash, key_id, status, created_ms, expires_ms, polled_ms)
VALUES ($1, $2, $3, 'pending', $4, $5, 0)
ON CONFLICT DO NOTHING;

-- name: device_code_find (device) -> status, user_id, expires_ms, polled_ms
SELECT status, user_id, expires_ms, polled_ms FROM device_codes WHERE device_hash = $1;

-- name: device_code_poll (device, now)
UPDATE device_codes SET polled_ms = $2 WHERE device_hash = $1;

-- name: device_code_consume (device)
UPDATE device_codes SET status = 'consumed' WHERE device_hash = $1 AND status = 'approved';

-- name: device_code_find_by_user (user) -> status, expires_ms
SELECT status, expires_ms FROM device_codes WHERE user_hash = $1;

-- name: device_code_decide (user, status, person, now)
UPDATE device_codes SET status = $2, user_id = $3
WHERE user_hash = $1 AND status = 'pending' AND expires_ms > $4;

-- name: device_codes_drop (before)
DELETE FROM device_codes WHERE expires_ms < $1;
