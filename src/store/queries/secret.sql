-- name: secret_list (environment, before, limit) -> id, name, created_ms, updated_ms
SELECT id, name, created_ms, updated_ms FROM secrets
WHERE environment_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: secret_get (environment, name) -> id, name, created_ms, updated_ms
SELECT id, name, created_ms, updated_ms FROM secrets WHERE environment_id = $1 AND name = $2;

-- name: secret_put_row (id, environment, name, sealed, wrapped, key_id, now) -> id, version, created_ms, updated_ms
INSERT INTO secrets (id, environment_id, name, sealed, wrapped, key_id, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
ON CONFLICT (environment_id, name) DO UPDATE SET sealed = excluded.sealed,
    wrapped = excluded.wrapped, key_id = excluded.key_id, version = secrets.version + 1, updated_ms = excluded.updated_ms
RETURNING id, version, created_ms, updated_ms;

-- name: secret_remove (environment, name)
DELETE FROM secrets WHERE environment_id = $1 AND name = $2;

-- name: secret_open (environment, name) -> sealed, key_id, wrapped, version
SELECT sealed, key_id, wrapped, version FROM secrets WHERE environment_id = $1 AND name = $2;

-- name: run_secrets_get (run) -> bindings, declared
SELECT r.secrets, t.secrets FROM runs r JOIN deployment_tasks t ON t.id = r.deployment_task_id
WHERE r.id = $1;

-- name: secrets_under_other_keys (key_id, after, limit) -> id, environment_id, name, sealed, wrapped, key_id
SELECT id, environment_id, name, sealed, wrapped, key_id FROM secrets
WHERE key_id <> $1 AND id > $2 ORDER BY id LIMIT $3;

-- name: secret_rewrap_row (id, wrapped_before, wrapped, key_id)
-- Only what was read: a secret that was set meanwhile is under the current key already.
UPDATE secrets SET wrapped = $3, key_id = $4 WHERE id = $1 AND wrapped = $2;

-- name: secrets_count_other_keys (key_id) -> n
SELECT count(*) FROM secrets WHERE key_id <> $1;

-- name: api_key_under (hash) -> id
SELECT id FROM api_keys WHERE key_hash = $1;

-- name: api_key_rehash (id, hash, key_id)
UPDATE api_keys SET key_hash = $2, key_id = $3 WHERE id = $1;

-- name: user_session_under (hash) -> id
SELECT id FROM user_sessions WHERE token_hash = $1;

-- name: user_session_rehash (id, hash, key_id)
UPDATE user_sessions SET token_hash = $2, key_id = $3 WHERE id = $1;

-- name: worker_rehash (id, hash, key_id)
UPDATE workers SET credential_hash = $2, key_id = $3 WHERE id = $1;

-- name: key_ids_of_hashes (now) -> kind, key_id, n
-- What is over hangs on no key any more.
SELECT 'api_keys', key_id, count(*) FROM api_keys
WHERE revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > $1) GROUP BY key_id
UNION ALL SELECT 'user_sessions', key_id, count(*) FROM user_sessions
WHERE revoked_ms IS NULL AND expires_ms > $1 GROUP BY key_id
UNION ALL SELECT 'workers', key_id, count(*) FROM workers
WHERE state <> 'disabled' GROUP BY key_id
UNION ALL SELECT 'invitations', key_id, count(*) FROM invitations
WHERE status = 'pending' AND expires_ms > $1 GROUP BY key_id
UNION ALL SELECT 'password_resets', key_id, count(*) FROM password_resets
WHERE expires_ms > $1 GROUP BY key_id
UNION ALL SELECT 'tokens', key_id, count(*) FROM tokens
WHERE status = 'pending' AND timeout_at_ms > $1 GROUP BY key_id
UNION ALL SELECT 'public_access_tokens', key_id, count(*) FROM public_access_tokens
WHERE revoked_ms IS NULL AND expires_ms > $1 GROUP BY key_id;

-- name: key_ids_of_sealed () -> kind, key_id, n
SELECT 'secrets', key_id, count(*) FROM secrets GROUP BY key_id
UNION ALL SELECT 'builds', env_key_id, count(*) FROM deployments
WHERE env_sealed IS NOT NULL GROUP BY env_key_id;

-- name: key_ids_of_audit () -> kind, key_id, n
SELECT 'audit_entries', key_id, count(*) FROM audit_entries GROUP BY key_id;
