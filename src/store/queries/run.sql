-- name: run_start_find (environment, deployment, task, queue, concurrency_key) -> project_id, group_id, min_grade, deployment_id, deployment_version, deployment_state, task_row_id, accepts_payload, max_duration_seconds, task_queue, ttl_ms, retry_policy, secrets, sandbox_id, fingerprint, cpu_millis, memory_mib, disk_mib, arch, queue_name, concurrency_limit, lane_id, max_live, network
SELECT e.project_id, e.group_id, e.min_grade, d.id, d.version, d.state, t.id,
    t.accepts_payload, t.max_duration_seconds, t.queue, t.ttl_ms, t.retry_policy, t.secrets,
    s.sandbox_id, s.fingerprint, s.cpu_millis, s.memory_mib, s.disk_mib, s.arch,
    q.name, q.concurrency_limit, n.id, n.max_live, s.network
FROM environments e
LEFT JOIN deployments d ON d.id = coalesce(CAST($2 AS TEXT), e.current_deployment_id)
LEFT JOIN deployment_tasks t ON t.deployment_id = d.id AND t.task_id = $3
LEFT JOIN deployment_sandboxes s ON s.id = t.deployment_sandbox_id
LEFT JOIN deployment_queues q ON q.deployment_id = d.id
    AND q.name = coalesce(CAST($4 AS TEXT), t.queue)
LEFT JOIN lanes n ON n.environment_id = e.id AND n.kind = 'run'
    AND n.queue = coalesce(CAST($4 AS TEXT), t.queue)
    AND n.concurrency_key = CASE WHEN q.concurrency_limit IS NULL THEN ''
        ELSE CAST($5 AS TEXT) END
WHERE e.id = $1;

-- name: task_is_known (environment, task, deployment) -> n, n_before
-- Deployments that have the task, and those of them that are older than this one or were current.
SELECT count(*), count(CASE WHEN b.state = 'deployed'
    AND (b.promoted_ms IS NOT NULL OR b.created_ms < d.created_ms) THEN 1 END)
FROM deployment_tasks t
JOIN deployments b ON b.id = t.deployment_id
JOIN deployments d ON d.id = $3
WHERE t.environment_id = $1 AND t.task_id = $2;

-- name: lane_upsert (id, environment, kind, queue, concurrency_key, max_live, now) -> id
INSERT INTO lanes (id, environment_id, kind, queue, concurrency_key, max_live, used_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (environment_id, kind, queue, concurrency_key)
    DO UPDATE SET max_live = excluded.max_live, used_ms = excluded.used_ms
RETURNING id;

-- name: workspace_insert (id, environment, deployment, sandbox, fingerprint, now)
INSERT INTO workspaces (id, environment_id, deployment_id, sandbox_id, fingerprint, state,
    created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, 'active', $6, $6);

-- name: run_insert (id, environment, session, workspace, deployment, task_row, lane, task, reason, cause, queue, concurrency_key, priority, score, ttl, expires, duration, retry, secrets, secret_names, metadata, tags, trace, api, sdk, cli, now, turn, previous, base_version)
INSERT INTO runs (id, environment_id, session_id, workspace_id, deployment_id, deployment_task_id,
    lane_id, task_id, state, status, reason, cause, queue, concurrency_key, priority, score_ms,
    ttl_ms, expires_ms, max_duration_seconds, retry_policy, secrets, secret_names, metadata, tags,
    event_cursor, trace_id, api_version, sdk_version, cli_version, created_ms, updated_ms,
    turn_index, previous_run_id, base_version_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', 'queued', $9, $10, $11, $12, $13, $14, $15, $16,
    $17, $18, $19, $20, $21, $22, 1, $23, $24, $25, $26, $27, $27, $28, $29, $30);

-- name: run_values_insert (run, payload)
INSERT INTO run_values (run_id, payload) VALUES ($1, $2);

-- name: run_event_insert (run, cursor, id, attempt, kind, at, category, severity, source, redaction, attributes)
INSERT INTO run_events (run_id, cursor, id, attempt, kind, at_ms, category, severity, source,
    redaction_class, attributes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: run_event_number (run, now) -> cursor
UPDATE runs SET event_cursor = event_cursor + 1, updated_ms = $2 WHERE id = $1
RETURNING event_cursor;

-- name: run_get (environment, id) -> id, environment_id, project_id, session_id, workspace_id, deployment_id, deployment_task_id, deployment_version, task_id, state, status, outcome, exit_code, error, attempt, turn_index, previous_run_id, forked_from, reason, cause, queue, concurrency_key, priority, ttl_ms, max_duration_seconds, active_ms, active_since_ms, retry_policy, secret_names, metadata, tags, engine, grade, accelerated, base_version_id, result_version_id, api_version, sdk_version, cli_version, created_ms, updated_ms, started_ms, finished_ms, payload, output, not_before_ms, max_live, lane_live, group_workers, fitting_workers
SELECT * FROM run_objects WHERE environment_id = $1 AND id = $2;

-- name: run_list_live (environment, before, session, task, limit) -> id, environment_id, project_id, session_id, workspace_id, deployment_id, deployment_task_id, deployment_version, task_id, state, status, outcome, exit_code, error, attempt, turn_index, previous_run_id, forked_from, reason, cause, queue, concurrency_key, priority, ttl_ms, max_duration_seconds, active_ms, active_since_ms, retry_policy, secret_names, metadata, tags, engine, grade, accelerated, base_version_id, result_version_id, api_version, sdk_version, cli_version, created_ms, updated_ms, started_ms, finished_ms, payload, output, not_before_ms, max_live, lane_live, group_workers, fitting_workers
SELECT * FROM run_objects
WHERE environment_id = $1 AND finished_ms IS NULL AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR session_id = $3)
    AND (CAST($4 AS TEXT) IS NULL OR task_id = $4)
ORDER BY id DESC LIMIT $5;

-- name: run_list_all (environment, before, session, task, limit) -> id, environment_id, project_id, session_id, workspace_id, deployment_id, deployment_task_id, deployment_version, task_id, state, status, outcome, exit_code, error, attempt, turn_index, previous_run_id, forked_from, reason, cause, queue, concurrency_key, priority, ttl_ms, max_duration_seconds, active_ms, active_since_ms, retry_policy, secret_names, metadata, tags, engine, grade, accelerated, base_version_id, result_version_id, api_version, sdk_version, cli_version, created_ms, updated_ms, started_ms, finished_ms, payload, output, not_before_ms, max_live, lane_live, group_workers, fitting_workers
SELECT * FROM run_objects
WHERE environment_id = $1 AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR session_id = $3)
    AND (CAST($4 AS TEXT) IS NULL OR task_id = $4)
ORDER BY id DESC LIMIT $5;

-- name: run_list_status (environment, before, session, task, limit, status) -> id, environment_id, project_id, session_id, workspace_id, deployment_id, deployment_task_id, deployment_version, task_id, state, status, outcome, exit_code, error, attempt, turn_index, previous_run_id, forked_from, reason, cause, queue, concurrency_key, priority, ttl_ms, max_duration_seconds, active_ms, active_since_ms, retry_policy, secret_names, metadata, tags, engine, grade, accelerated, base_version_id, result_version_id, api_version, sdk_version, cli_version, created_ms, updated_ms, started_ms, finished_ms, payload, output, not_before_ms, max_live, lane_live, group_workers, fitting_workers
SELECT * FROM run_objects
WHERE environment_id = $1 AND status = $6 AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR session_id = $3)
    AND (CAST($4 AS TEXT) IS NULL OR task_id = $4)
ORDER BY id DESC LIMIT $5;

-- name: run_counts (environment) -> status, n
SELECT status, count(*) FROM runs WHERE environment_id = $1 GROUP BY status;

-- name: run_peek (environment, id) -> state, deployment_id, session_id, event_cursor, log_cursor, stdout_bytes, stderr_bytes, logs_removed, trace_id
SELECT state, deployment_id, session_id, event_cursor, log_cursor, stdout_bytes, stderr_bytes,
    logs_removed, trace_id
FROM runs WHERE environment_id = $1 AND id = $2;

-- name: run_progress (id) -> state, event_cursor, log_cursor
SELECT state, event_cursor, log_cursor FROM runs WHERE id = $1;

-- name: run_load (id) -> id, environment_id, group_id, session_id, deployment_id, state, status, attempt, dispatches, lease_sequence, started_ms, active_ms, active_since_ms, max_duration_seconds, retry_policy, cancel_requested_ms, cancel_reason, cancel_force, active_base_ms
SELECT r.id, r.environment_id, e.group_id, r.session_id, r.deployment_id, r.state, r.status,
    r.attempt, r.dispatches, r.lease_sequence, r.started_ms, r.active_ms, r.active_since_ms,
    r.max_duration_seconds, r.retry_policy, r.cancel_requested_ms, r.cancel_reason, r.cancel_force,
    r.active_base_ms
FROM runs r JOIN environments e ON e.id = r.environment_id
WHERE r.id = $1;

-- name: run_update_state (id, old_state, state, status, now, active_ms, active_since, attempt, dispatches)
UPDATE runs SET state = $3, status = $4, updated_ms = $5, active_ms = $6, active_since_ms = $7,
    attempt = $8, dispatches = $9, started_ms = CASE WHEN CAST($3 AS TEXT) = 'executing'
        THEN coalesce(started_ms, $5) ELSE started_ms END
WHERE id = $1 AND state = $2;

-- name: run_update_finished (id, old_state, status, outcome, exit_code, error, active_ms, now)
UPDATE runs SET state = 'finished', status = $3, outcome = $4, exit_code = $5, error = $6,
    active_ms = $7, active_since_ms = NULL, finished_ms = $8, updated_ms = $8
WHERE id = $1 AND state = $2;

-- name: run_output_set (run, output)
UPDATE run_values SET output = $2 WHERE run_id = $1;

-- name: run_metadata_get (id) -> metadata
SELECT metadata FROM runs WHERE id = $1;

-- name: run_metadata_set (id, metadata, now)
UPDATE runs SET metadata = $2, updated_ms = $3 WHERE id = $1;

-- name: run_cancel_record (id, now, deadline, reason, force, by)
-- Asked again it can only become harder and come sooner.
UPDATE runs SET cancel_requested_ms = coalesce(cancel_requested_ms, $2),
    cancel_deadline_ms = CASE WHEN cancel_deadline_ms <= $3 THEN cancel_deadline_ms ELSE $3 END,
    cancel_reason = coalesce(cancel_reason, $4),
    cancel_force = CASE WHEN cancel_force = 1 THEN 1 ELSE $5 END,
    cancel_by = coalesce(cancel_by, $6)
WHERE id = $1;

-- name: operation_insert (id, environment, run, kind, status, reason, force, by, now, applied)
INSERT INTO operations (id, environment_id, run_id, kind, status, reason, force, requested_by,
    created_ms, applied_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: operation_get (environment, id) -> id, run_id, kind, status, reason, created_ms, applied_ms
SELECT id, run_id, kind, status, reason, created_ms, applied_ms FROM operations
WHERE environment_id = $1 AND id = $2;

-- name: operations_apply (run, now)
UPDATE operations SET status = 'applied', applied_ms = $2
WHERE run_id = $1 AND status = 'pending';

-- name: lease_live_find (subject_kind, subject) -> id, worker_id, sequence, state
SELECT id, worker_id, sequence, state FROM leases
WHERE subject_kind = $1 AND subject_id = $2 AND live = 1;

-- name: lease_end (id, old_state, state, now)
UPDATE leases SET state = $3, live = 0, ended_ms = $4 WHERE id = $1 AND state = $2;

-- name: worker_message_number (worker) -> cursor
UPDATE workers SET message_cursor = message_cursor + 1 WHERE id = $1 RETURNING message_cursor;

-- name: worker_message_insert (worker, cursor, lease, type, body, now)
INSERT INTO worker_messages (worker_id, cursor, lease_id, type, body, created_ms)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: idempotency_find (environment, route, key, now) -> fingerprint, subject_id, response
SELECT fingerprint, subject_id, response FROM idempotency
WHERE environment_id = $1 AND route = $2 AND key = $3 AND expires_ms > $4;

-- name: idempotency_claim (environment, route, key, fingerprint, subject, now, expires)
INSERT INTO idempotency (environment_id, route, key, fingerprint, subject_id, created_ms,
    expires_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (environment_id, route, key) DO UPDATE SET fingerprint = excluded.fingerprint,
    subject_id = excluded.subject_id, response = NULL, created_ms = excluded.created_ms,
    expires_ms = excluded.expires_ms
WHERE idempotency.expires_ms <= excluded.created_ms;

-- name: run_queued_needs (run) -> group_id, cpu_millis, memory_mib, disk_mib, compat
SELECT e.group_id, s.cpu_millis, s.memory_mib, s.disk_mib, s.compat
FROM ready y JOIN shapes s ON s.id = y.shape_id JOIN environments e ON e.id = s.environment_id
WHERE y.subject_id = $1;
