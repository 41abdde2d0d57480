-- name: session_get (environment, id) -> id, environment_id, project_id, task_id,
--   initial_deployment_id, active_deployment_id, external_id, status, current_run_id, workspace_id,
--   metadata, tags, terminal_reason, forked_from, expires_ms, expired_ms, continuation_error,
--   created_ms, updated_ms, output, error, run_state, has_wait, is_continued
SELECT * FROM session_objects WHERE environment_id = $1 AND id = $2;

-- name: session_list_all (environment, before, task, limit) -> id, environment_id,
--   project_id, task_id, initial_deployment_id, active_deployment_id, external_id, status,
--   current_run_id, workspace_id, metadata, tags, terminal_reason, forked_from, expires_ms,
--   expired_ms, continuation_error, created_ms, updated_ms, output, error, run_state, has_wait,
--   is_continued
SELECT * FROM session_objects
WHERE environment_id = $1 AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR task_id = $3)
ORDER BY id DESC LIMIT $4;

-- name: session_list_status (environment, before, task, limit, status) -> id, environment_id,
--   project_id, task_id, initial_deployment_id, active_deployment_id, external_id, status,
--   current_run_id, workspace_id, metadata, tags, terminal_reason, forked_from, expires_ms,
--   expired_ms, continuation_error, created_ms, updated_ms, output, error, run_state, has_wait,
--   is_continued
SELECT * FROM session_objects
WHERE environment_id = $1 AND status = $5 AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR task_id = $3)
ORDER BY id DESC LIMIT $4;

-- name: session_list_named (environment, before, task, limit, status, external_id) -> id, environment_id,
--   project_id, task_id, initial_deployment_id, active_deployment_id, external_id, status,
--   current_run_id, workspace_id, metadata, tags, terminal_reason, forked_from, expires_ms,
--   expired_ms, continuation_error, created_ms, updated_ms, output, error, run_state, has_wait,
--   is_continued
SELECT * FROM session_objects
WHERE environment_id = $1 AND external_id = $6 AND id < $2
    AND (CAST($3 AS TEXT) IS NULL OR task_id = $3)
    AND (CAST($5 AS TEXT) IS NULL OR status = $5)
ORDER BY id DESC LIMIT $4;

-- name: session_find (environment, id) -> id
SELECT id FROM sessions WHERE environment_id = $1 AND id = $2;

-- name: session_find_external (environment, external_id) -> id
SELECT id FROM sessions WHERE environment_id = $1 AND external_id = $2;

-- name: session_load (id) -> id, environment_id, task_id, active_deployment_id, workspace_id,
--   current_run_id, status, expires_ms, start_fingerprint, request, metadata
SELECT id, environment_id, task_id, active_deployment_id, workspace_id, current_run_id, status,
    expires_ms, start_fingerprint, request, metadata
FROM sessions WHERE id = $1;

-- name: session_lock (id)
UPDATE sessions SET updated_ms = updated_ms WHERE id = $1;

-- name: session_insert (id, environment, task, deployment, workspace, run, external_id,
--   fingerprint, request, metadata, tags, expires, now)
INSERT INTO sessions (id, environment_id, task_id, initial_deployment_id, active_deployment_id,
    workspace_id, current_run_id, external_id, status, start_fingerprint, request, metadata, tags,
    expires_ms, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $4, $5, $6, $7, 'open', $8, $9, $10, $11, $12, $13, $13)
ON CONFLICT (environment_id, external_id) WHERE external_id IS NOT NULL DO NOTHING;

-- name: session_advance (id, run, deployment, now)
UPDATE sessions SET current_run_id = $2, active_deployment_id = $3, continuation_error = NULL,
    updated_ms = $4
WHERE id = $1 AND status = 'open';

-- name: session_end (id, old_status, status, reason, expired, now)
UPDATE sessions SET status = $3, terminal_reason = $4, expired_ms = $5, updated_ms = $6
WHERE id = $1 AND status = $2;

-- name: session_update (id, metadata, tags, expires, now)
UPDATE sessions SET metadata = coalesce(CAST($2 AS TEXT), metadata),
    tags = coalesce(CAST($3 AS TEXT), tags),
    expires_ms = coalesce(CAST($4 AS BIGINT), expires_ms), updated_ms = $5
WHERE id = $1;

-- name: sessions_past_expiry (now, limit) -> id
SELECT id FROM sessions WHERE status = 'open' AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2;

-- name: session_runs (environment, session, after, limit) -> id, environment_id, project_id,
--   session_id, workspace_id, deployment_id, deployment_task_id, deployment_version, task_id,
--   state, status, outcome, exit_code, error, attempt, turn_index, previous_run_id, forked_from,
--   reason, cause, queue, concurrency_key, priority, ttl_ms, max_duration_seconds, active_ms,
--   active_since_ms, retry_policy, secret_names, metadata, tags, engine, grade, accelerated,
--   base_version_id, result_version_id, api_version, sdk_version, cli_version, created_ms,
--   updated_ms, started_ms, finished_ms, payload, output, not_before_ms, max_live, lane_live,
--   group_workers, fitting_workers
-- A run that is not there stands for the beginning.
SELECT * FROM run_objects
WHERE environment_id = $1 AND session_id = $2
    AND turn_index > coalesce((SELECT p.turn_index FROM runs p WHERE p.id = $3), -1)
ORDER BY turn_index LIMIT $4;

-- name: session_run_ids (session, after, limit) -> id, turn_index
SELECT id, turn_index FROM runs WHERE session_id = $1 AND turn_index > $2
ORDER BY turn_index LIMIT $3;

-- name: session_run_find (id) -> state, turn_index, is_finalized, payload
SELECT r.state, r.turn_index,
    CASE WHEN EXISTS (SELECT 1 FROM leases l WHERE l.subject_kind = 'run' AND l.subject_id = r.id
        AND l.live = 1 AND l.finalize_fp IS NOT NULL) THEN 1 ELSE 0 END, v.payload
FROM runs r JOIN run_values v ON v.run_id = r.id WHERE r.id = $1;

-- name: workspace_lock (environment, id) -> state, fingerprint, current_version_id, deployment_id,
--   sandbox_id
UPDATE workspaces SET updated_ms = updated_ms WHERE environment_id = $1 AND id = $2
RETURNING state, fingerprint, current_version_id, deployment_id, sandbox_id;

-- name: workspace_room (deployment, sandbox) -> cpu_millis, memory_mib, disk_mib
SELECT cpu_millis, memory_mib, disk_mib FROM deployment_sandboxes
WHERE deployment_id = $1 AND sandbox_id = $2;

-- name: workspace_writer (workspace) -> id
SELECT id FROM runs WHERE workspace_id = $1 AND finished_ms IS NULL LIMIT 1;

-- name: continuation_find (record) -> id
SELECT id FROM continuations WHERE record_id = $1;

-- name: continuation_pending (session) -> id
SELECT id FROM continuations WHERE session_id = $1 AND state IN ('accepted', 'claimed') LIMIT 1;

-- name: session_unread (session) -> id, stream_id, sequence
-- The first input that no wait took and that made no run: what was left to a run that then did not
-- take it is still there to be read.
SELECT r.id, r.stream_id, r.sequence FROM streams s
JOIN stream_records r ON r.stream_id = s.id AND r.sequence > (SELECT coalesce(max(p.sequence), 0)
    FROM stream_positions p WHERE p.stream_id = s.id AND p.correlation_id = '')
WHERE s.session_id = $1 AND s.direction = 'input'
    AND NOT EXISTS (SELECT 1 FROM stream_positions p WHERE p.stream_id = r.stream_id
        AND p.correlation_id = r.correlation_id AND p.sequence >= r.sequence)
    AND NOT EXISTS (SELECT 1 FROM continuations c WHERE c.record_id = r.id AND c.state <> 'skipped')
ORDER BY r.created_ms, r.id LIMIT 1;

-- name: continuation_forget (record)
DELETE FROM continuations WHERE record_id = $1 AND state = 'skipped';

-- name: continuation_insert (id, environment, session, record, stream, sequence, state, now)
INSERT INTO continuations (id, environment_id, session_id, record_id, stream_id, sequence, state,
    created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8);

-- name: continuation_load (id) -> session_id, record_id, stream_id, sequence, state
SELECT session_id, record_id, stream_id, sequence, state FROM continuations WHERE id = $1;

-- name: continuation_move (id, old_state, state, run, error, now)
UPDATE continuations SET state = $3, run_id = $4, error = $5, updated_ms = $6
WHERE id = $1 AND state = $2;

-- name: continuation_fail_note (session, error, now)
UPDATE sessions SET continuation_error = $2, updated_ms = $3 WHERE id = $1;

-- name: continuation_deployment (environment, task, workspace, queue) -> id
-- The current deployment, where it has the task in the sandbox of the workspace, and the queue
-- that was asked for.
SELECT d.id FROM environments e
JOIN deployments d ON d.id = e.current_deployment_id
JOIN deployment_tasks t ON t.deployment_id = d.id AND t.task_id = $2
JOIN deployment_sandboxes s ON s.id = t.deployment_sandbox_id
JOIN workspaces w ON w.id = $3 AND w.fingerprint = s.fingerprint
WHERE e.id = $1
    AND (CAST($4 AS TEXT) IS NULL OR t.queue = $4 OR EXISTS (SELECT 1 FROM deployment_queues q
        WHERE q.deployment_id = d.id AND q.name = $4));

-- name: continuations_due (limit) -> id
-- Those about which something can be decided: the session is over, its run can read the record
-- itself, or there is no run any more and nobody writes to the workspace.
SELECT c.id FROM continuations c
JOIN sessions s ON s.id = c.session_id
LEFT JOIN runs r ON r.id = s.current_run_id
WHERE c.state = 'accepted' AND (s.status <> 'open'
    OR (r.id IS NOT NULL AND r.finished_ms IS NULL AND NOT EXISTS (
        SELECT 1 FROM leases l WHERE l.subject_kind = 'run' AND l.subject_id = r.id
            AND l.live = 1 AND l.finalize_fp IS NOT NULL))
    OR ((r.id IS NULL OR r.finished_ms IS NOT NULL) AND NOT EXISTS (
        SELECT 1 FROM runs o WHERE o.workspace_id = s.workspace_id AND o.finished_ms IS NULL)
        AND NOT EXISTS (SELECT 1 FROM mounts m WHERE m.workspace_id = s.workspace_id
            AND m.state IN ('mounting', 'mounted', 'unmounting'))))
ORDER BY c.created_ms, c.id LIMIT $1;

-- name: continuations_stale (before, limit) -> id
SELECT id FROM continuations WHERE state = 'claimed' AND updated_ms <= $1
ORDER BY updated_ms LIMIT $2;

-- name: purge_continuations (environment)
DELETE FROM continuations WHERE environment_id = $1;
