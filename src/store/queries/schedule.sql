-- name: schedule_insert (id, environment, type, key, task, cron, timezone, external, status, last_error, options, bindings, pinned, next, due, now)
INSERT INTO schedules (id, environment_id, type, deduplication_key, task_id, cron, timezone,
    external_id, status, last_error, options, secret_bindings, pinned, next_fire_ms, due_ms,
    created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16)
ON CONFLICT (environment_id, type, deduplication_key) DO NOTHING;

-- name: schedule_update (id, task, cron, timezone, external, status, last_error, options, bindings, pinned, generation, next, due, now)
UPDATE schedules SET task_id = $2, cron = $3, timezone = $4, external_id = $5, status = $6,
    last_error = $7, options = $8, secret_bindings = $9, pinned = $10,
    failures = CASE WHEN generation = $11 THEN failures ELSE 0 END, generation = $11,
    next_fire_ms = $12, due_ms = $13, updated_ms = $14
WHERE id = $1;

-- name: schedule_get (environment, id) -> id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status, last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures, last_fire_ms, created_ms, updated_ms
SELECT id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status,
    last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures,
    last_fire_ms, created_ms, updated_ms
FROM schedules WHERE environment_id = $1 AND id = $2;

-- name: schedule_list (environment, before, limit) -> id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status, last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures, last_fire_ms, created_ms, updated_ms
SELECT id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status,
    last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures,
    last_fire_ms, created_ms, updated_ms
FROM schedules WHERE environment_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: schedule_lock (environment, id) -> id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status, last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures, last_fire_ms, created_ms, updated_ms
UPDATE schedules SET updated_ms = updated_ms WHERE environment_id = $1 AND id = $2
RETURNING id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status,
    last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures,
    last_fire_ms, created_ms, updated_ms;

-- name: schedule_find_key (environment, key) -> id
SELECT id FROM schedules
WHERE environment_id = $1 AND type = 'imperative' AND deduplication_key = $2;

-- name: schedules_declared (environment) -> id, deduplication_key
SELECT id, deduplication_key FROM schedules
WHERE environment_id = $1 AND type = 'declarative' ORDER BY id;

-- name: deployment_schedules (deployment) -> task_id, schedules
SELECT task_id, schedules FROM deployment_tasks
WHERE deployment_id = $1 AND schedules <> '[]' ORDER BY task_id;

-- name: schedules_break (environment, deployment, error, now)
UPDATE schedules SET status = 'errored', last_error = $3, next_fire_ms = NULL, due_ms = NULL,
    updated_ms = $4
WHERE environment_id = $1 AND type = 'imperative' AND status = 'active' AND pinned = 0
    AND NOT EXISTS (SELECT 1 FROM deployment_tasks t
        WHERE t.deployment_id = $2 AND t.task_id = schedules.task_id);

-- name: schedules_mendable (environment, deployment) -> id
SELECT s.id FROM schedules s
JOIN deployment_tasks t ON t.deployment_id = $2 AND t.task_id = s.task_id
WHERE s.environment_id = $1 AND s.type = 'imperative' AND s.status = 'errored' AND s.pinned = 0
ORDER BY s.id;

-- name: schedules_due (now) -> one
SELECT 1 FROM schedules WHERE due_ms <= $1 LIMIT 1;

-- name: schedules_claim (now, limit) -> id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status, last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures, last_fire_ms, created_ms, updated_ms
SELECT id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status,
    last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures,
    last_fire_ms, created_ms, updated_ms
FROM schedules WHERE due_ms <= $1 ORDER BY due_ms LIMIT $2 {skip_locked};

-- name: schedule_claim (id, now) -> id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status, last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures, last_fire_ms, created_ms, updated_ms
SELECT id, environment_id, type, deduplication_key, task_id, cron, timezone, external_id, status,
    last_error, options, secret_bindings, pinned, generation, next_fire_ms, due_ms, failures,
    last_fire_ms, created_ms, updated_ms
FROM schedules WHERE id = $1 AND due_ms <= $2 {skip_locked};

-- name: schedule_fire_insert (schedule, generation, fire, run, now)
INSERT INTO schedule_fires (schedule_id, generation, fire_ms, run_id, created_ms)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (schedule_id, generation, fire_ms) DO NOTHING;

-- name: schedule_fired (id, fire, next, due)
UPDATE schedules SET last_fire_ms = $2, next_fire_ms = $3, due_ms = $4, failures = 0,
    last_error = NULL
WHERE id = $1;

-- name: schedule_postpone (id, slot, due, failures, error)
UPDATE schedules SET next_fire_ms = $2, due_ms = $3, failures = $4, last_error = $5
WHERE id = $1 AND status = 'active';

-- name: schedule_break (id, error, now)
UPDATE schedules SET status = 'errored', last_error = $2, next_fire_ms = NULL, due_ms = NULL,
    failures = 0, updated_ms = $3
WHERE id = $1 AND status = 'active';

-- name: schedule_fires_delete (schedule)
DELETE FROM schedule_fires WHERE schedule_id = $1;

-- name: schedule_delete (schedule)
DELETE FROM schedules WHERE id = $1;

-- name: schedule_fires_forget (before)
DELETE FROM schedule_fires WHERE created_ms < $1;

-- name: purge_schedule_fires (environment)
DELETE FROM schedule_fires
WHERE schedule_id IN (SELECT id FROM schedules WHERE environment_id = $1);

-- name: purge_schedules (environment)
DELETE FROM schedules WHERE environment_id = $1;
