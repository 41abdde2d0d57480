-- name: token_insert (id, environment, run, timeout_at, metadata, tags, callback_hash, key_id, public_access_token, now)
INSERT INTO tokens (id, environment_id, run_id, status, timeout_at_ms, metadata, tags,
    callback_hash, key_id, public_access_token_id, created_ms, updated_ms)
VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, $9, $10, $10);

-- name: token_lock (id) -> id, environment_id, run_id, status, timeout_at_ms, data, cancel_reason
UPDATE tokens SET updated_ms = updated_ms WHERE id = $1
RETURNING id, environment_id, run_id, status, timeout_at_ms, data, cancel_reason;

-- name: token_move (id, old_status, status, data, completed_by, reason, now, completed)
UPDATE tokens SET status = $3, data = $4, completed_by = $5, cancel_reason = $6, updated_ms = $7,
    completed_ms = $8
WHERE id = $1 AND status = $2;

-- name: token_adopt (id, run)
-- A token that no run made belongs to the first that waits for it.
UPDATE tokens SET run_id = coalesce(run_id, $2) WHERE id = $1;

-- name: tokens_timed_out (now, limit) -> id
SELECT id FROM tokens WHERE status = 'pending' AND timeout_at_ms <= $1
ORDER BY timeout_at_ms LIMIT $2;

-- name: public_access_token_insert (id, environment, hash, key_id, scope_type, scope, token, max_uses, expires, now)
INSERT INTO public_access_tokens (id, environment_id, token_hash, key_id, scope_type, scope,
    token_id, max_uses, expires_ms, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: token_get (environment, id) -> id, status, timeout_at_ms, data, tags, metadata, wait_id, run_id, completed_by, created_ms, updated_ms, completed_ms, key_id
SELECT t.id, t.status, t.timeout_at_ms, t.data, t.tags, t.metadata,
    coalesce(
        (SELECT w.id FROM waits w WHERE w.token_id = t.id AND w.condition = 'pending'
            ORDER BY w.id LIMIT 1),
        (SELECT w.id FROM waits w WHERE w.run_id = t.run_id AND w.token_id = t.id
            ORDER BY w.created_ms DESC, w.id DESC LIMIT 1)),
    t.run_id, t.completed_by, t.created_ms, t.updated_ms, t.completed_ms, t.key_id
FROM tokens t WHERE t.environment_id = $1 AND t.id = $2;

-- name: token_list (environment, before, limit) -> id, status, timeout_at_ms, data, tags, metadata, wait_id, run_id, completed_by, created_ms, updated_ms, completed_ms, key_id
SELECT t.id, t.status, t.timeout_at_ms, t.data, t.tags, t.metadata,
    coalesce(
        (SELECT w.id FROM waits w WHERE w.token_id = t.id AND w.condition = 'pending'
            ORDER BY w.id LIMIT 1),
        (SELECT w.id FROM waits w WHERE w.run_id = t.run_id AND w.token_id = t.id
            ORDER BY w.created_ms DESC, w.id DESC LIMIT 1)),
    t.run_id, t.completed_by, t.created_ms, t.updated_ms, t.completed_ms, t.key_id
FROM tokens t WHERE t.environment_id = $1 AND t.id < $2
ORDER BY t.id DESC LIMIT $3;

-- name: token_list_status (environment, before, limit, status) -> id, status, timeout_at_ms, data, tags, metadata, wait_id, run_id, completed_by, created_ms, updated_ms, completed_ms, key_id
SELECT t.id, t.status, t.timeout_at_ms, t.data, t.tags, t.metadata,
    coalesce(
        (SELECT w.id FROM waits w WHERE w.token_id = t.id AND w.condition = 'pending'
            ORDER BY w.id LIMIT 1),
        (SELECT w.id FROM waits w WHERE w.run_id = t.run_id AND w.token_id = t.id
            ORDER BY w.created_ms DESC, w.id DESC LIMIT 1)),
    t.run_id, t.completed_by, t.created_ms, t.updated_ms, t.completed_ms, t.key_id
FROM tokens t WHERE t.environment_id = $1 AND t.status = $4 AND t.id < $2
ORDER BY t.id DESC LIMIT $3;

-- name: token_is_owned (token) -> one
SELECT 1 FROM tokens t JOIN waits w ON w.run_id = t.run_id AND w.token_id = t.id
WHERE t.id = $1 AND w.owns_token = 1;

-- name: token_find (environment, id) -> id
-- By its own id or by that of a wait for it.
SELECT t.id FROM tokens t WHERE t.environment_id = $1 AND t.id = $2
UNION ALL
SELECT w.token_id FROM waits w
WHERE w.environment_id = $1 AND w.id = $2 AND w.token_id IS NOT NULL;

-- name: token_callback (id) -> environment_id, callback_hash, key_id
SELECT environment_id, callback_hash, key_id FROM tokens WHERE id = $1;

-- name: public_access_token_find (hash) -> id, environment_id, token_hash, scope_type, scope, max_uses, uses, expires_ms, revoked_ms
SELECT id, environment_id, token_hash, scope_type, scope, max_uses, uses, expires_ms, revoked_ms
FROM public_access_tokens WHERE token_hash = $1;

-- name: public_access_token_use (id)
UPDATE public_access_tokens SET uses = uses + 1
WHERE id = $1 AND (max_uses IS NULL OR uses < max_uses);

-- name: public_access_token_is_live (id, now) -> one
SELECT 1 FROM public_access_tokens WHERE id = $1 AND revoked_ms IS NULL AND expires_ms > $2;

-- name: public_access_token_scope (environment, id) -> scope_type, scope
SELECT scope_type, scope FROM public_access_tokens WHERE environment_id = $1 AND id = $2;

-- name: public_access_token_revoke (environment, id, now)
UPDATE public_access_tokens SET revoked_ms = coalesce(revoked_ms, $3)
WHERE environment_id = $1 AND id = $2;
