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
