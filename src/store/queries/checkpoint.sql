-- name: object_ref_insert (owner, object)
INSERT INTO object_refs (owner_id, object_id) VALUES ($1, $2)
ON CONFLICT (owner_id, object_id) DO NOTHING;

-- name: object_refs_of (owner) -> object_id
SELECT object_id FROM object_refs WHERE owner_id = $1 ORDER BY object_id;

-- name: object_refs_delete (owner)
DELETE FROM object_refs WHERE owner_id = $1;

-- name: checkpoint_insert (id, environment, run, wait, attempt, lease, now)
INSERT INTO checkpoints (id, environment_id, run_id, wait_id, attempt, lease_id, state, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, 'creating', $7)
ON CONFLICT (id) DO NOTHING;

-- name: checkpoint_lock (id) -> id, environment_id, run_id, wait_id, attempt, lease_id, state, manifest_id, key_id, compat, compat_facts, op, can_fork, version_id, logical_bytes, stored_bytes, created_ms
UPDATE checkpoints SET created_ms = created_ms WHERE id = $1
RETURNING id, environment_id, run_id, wait_id, attempt, lease_id, state, manifest_id, key_id,
    compat, compat_facts, op, can_fork, version_id, logical_bytes, stored_bytes, created_ms;

-- name: checkpoint_newest (run, attempt) -> id
-- What an attempt goes on from when it is delivered again.
SELECT id FROM checkpoints WHERE run_id = $1 AND attempt = $2 AND state = 'ready'
ORDER BY created_ms DESC, id DESC LIMIT 1;

-- name: checkpoint_move (id, old_state, state, now)
UPDATE checkpoints SET state = $3,
    staged_ms = CASE WHEN CAST($3 AS TEXT) = 'staged' THEN $4 ELSE staged_ms END,
    ready_ms = CASE WHEN CAST($3 AS TEXT) = 'ready' THEN $4 ELSE ready_ms END,
    ended_ms = CASE WHEN CAST($3 AS TEXT) IN ('invalid', 'deleted') THEN $4 ELSE ended_ms END
WHERE id = $1 AND state = $2;

-- name: checkpoint_fill (id, manifest, key_id, compat, compat_facts, op, can_fork, version, logical_bytes, stored_bytes)
UPDATE checkpoints SET manifest_id = $2, key_id = $3, compat = $4, compat_facts = $5, op = $6,
    can_fork = $7, logical_bytes = $9, stored_bytes = $10,
    version_id = coalesce($8, (SELECT r.result_version_id FROM runs r WHERE r.id = run_id))
WHERE id = $1;

-- name: wait_take (id, lease) -> resume_version
UPDATE waits SET lease_id = $2, resume_version = resume_version + 1 WHERE id = $1
RETURNING resume_version;

-- name: wait_count_resume (id) -> resume_number
UPDATE waits SET resume_number = resume_number + 1 WHERE id = $1 RETURNING resume_number;

-- name: wait_set_checkpoint (id, checkpoint)
UPDATE waits SET checkpoint_id = $2 WHERE id = $1;

-- name: wait_retry_park (id, failures, park_at)
UPDATE waits SET checkpoint_id = NULL, checkpoint_failures = $2, park_at_ms = $3, nudged_ms = NULL
WHERE id = $1;

-- name: resume_grant (lease) -> wait_id, checkpoint_id, manifest_id, key_id, op, resume_version, settled_ms, decision, forked_from
SELECT w.id, c.id, c.manifest_id, c.key_id, c.op, w.resume_version, w.settled_ms, w.decision,
    r.forked_from
FROM leases l
JOIN waits w ON w.run_id = l.subject_id AND w.suspension = 'resuming' AND w.lease_id = l.id
JOIN checkpoints c ON c.id = w.checkpoint_id
JOIN runs r ON r.id = l.subject_id
WHERE l.id = $1;

-- name: run_count_anew (id)
-- A new durable point: deliveries are counted from here.
UPDATE runs SET dispatches = 0 WHERE id = $1;

-- name: run_count_from_start (id)
UPDATE runs SET active_base_ms = active_ms WHERE id = $1;

-- name: worker_compat (id) -> compat, checkpoint_key_id, capabilities
SELECT compat, checkpoint_key_id, capabilities FROM workers WHERE id = $1;

-- name: checkpoint_find (id, lease) -> wait_id
SELECT wait_id FROM checkpoints WHERE id = $1 AND lease_id = $2;

-- name: checkpoints_left (creating_before, limit) -> id, run_id
-- Nobody works on these any more: their lease is over, or it has taken too long.
SELECT c.id, c.run_id FROM checkpoints c LEFT JOIN leases l ON l.id = c.lease_id AND l.live = 1
WHERE c.state IN ('creating', 'staged')
    AND (l.id IS NULL OR (c.state = 'creating' AND c.created_ms < $1))
ORDER BY c.created_ms LIMIT $2;

-- name: checkpoints_past (before, limit) -> id, run_id
-- Ready ones that no delivery can go on from: their run is over, or a later point is held.
SELECT c.id, c.run_id FROM checkpoints c
JOIN runs r ON r.id = c.run_id
JOIN waits w ON w.id = c.wait_id
WHERE c.state = 'ready' AND c.ready_ms <= $1
    AND (r.finished_ms <= $1 OR (r.finished_ms IS NULL AND w.released_ms <= $1
        AND w.suspension = 'released' AND (r.attempt > c.attempt OR EXISTS (
            SELECT 1 FROM checkpoints n
            WHERE n.run_id = c.run_id AND n.attempt = c.attempt AND n.state = 'ready'
                AND n.created_ms > c.created_ms))))
ORDER BY c.ready_ms LIMIT $2;

-- name: waits_to_park (before, limit) -> id, run_id
SELECT w.id, w.run_id FROM waits w
JOIN leases l ON l.subject_kind = 'run' AND l.subject_id = w.run_id AND l.live = 1
JOIN workers k ON k.id = l.worker_id AND k.compat IS NOT NULL
WHERE w.suspension = 'hot' AND w.condition = 'pending' AND w.nudged_ms IS NULL
    AND w.park_at_ms <= $1
ORDER BY w.park_at_ms LIMIT $2;

-- name: wait_nudge (id, now)
UPDATE waits SET nudged_ms = $2 WHERE id = $1 AND nudged_ms IS NULL;

-- name: waits_forsaken (limit) -> lease_id, run_id
SELECT w.lease_id, w.run_id FROM waits w JOIN leases l ON l.id = w.lease_id AND l.live = 0
WHERE w.suspension = 'resuming' LIMIT $1;

-- name: resume_needs (run) -> compat, key_id, compat_facts, group_id
SELECT s.compat, s.key_id, c.compat_facts, e.group_id
FROM ready y
JOIN shapes s ON s.id = y.shape_id
JOIN runs r ON r.id = y.subject_id
JOIN environments e ON e.id = r.environment_id
JOIN waits w ON w.run_id = r.id AND w.suspension = 'resume_pending'
JOIN checkpoints c ON c.id = w.checkpoint_id
WHERE y.subject_id = $1 AND y.kind = 'resume';

-- name: resume_workers (group, limit) -> resource_id, compat, checkpoint_key_id, capabilities
SELECT resource_id, compat, checkpoint_key_id, capabilities FROM workers
WHERE group_id = $1 AND state = 'active' ORDER BY resource_id LIMIT $2;

-- name: fork_wait_find (run) -> id
-- The wait a fork starts from unless one is named: the pending one, else the last.
SELECT id FROM waits WHERE run_id = $1
ORDER BY CASE WHEN suspension IN ('hot', 'checkpointing', 'parked', 'resume_pending', 'resuming')
    THEN 0 ELSE 1 END, created_ms DESC, id DESC LIMIT 1;

-- name: fork_engine (run) -> compat
-- What the worker of the run can make checkpoints for.
SELECT k.compat FROM leases l JOIN workers k ON k.id = l.worker_id
WHERE l.subject_kind = 'run' AND l.subject_id = $1 AND l.live = 1;

-- name: fork_workspace (id, source_run, now)
INSERT INTO workspaces (id, environment_id, deployment_id, sandbox_id, fingerprint, state,
    current_version_id, forked_from, created_ms, updated_ms)
SELECT $1, w.environment_id, w.deployment_id, w.sandbox_id, w.fingerprint, 'active',
    r.base_version_id, w.id, $3, $3
FROM runs r JOIN workspaces w ON w.id = r.workspace_id WHERE r.id = $2;

-- name: fork_session (id, source_run, workspace, run, external_id, metadata, tags, forked_from, now)
INSERT INTO sessions (id, environment_id, task_id, initial_deployment_id, active_deployment_id,
    workspace_id, current_run_id, external_id, status, metadata, tags, forked_from, request,
    created_ms, updated_ms)
SELECT $1, r.environment_id, r.task_id, r.deployment_id, r.deployment_id, $3, $4,
    CAST($5 AS TEXT), 'open', coalesce($6, s.metadata), coalesce($7, s.tags), $8, s.request, $9, $9
FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = $2
ON CONFLICT (environment_id, external_id) WHERE external_id IS NOT NULL DO NOTHING;

-- name: fork_run (id, source, session, workspace, forked_from, metadata, tags, trace, attempt, version, api, sdk, cli, now)
INSERT INTO runs (id, environment_id, session_id, workspace_id, deployment_id, deployment_task_id,
    lane_id, task_id, state, status, reason, forked_from, queue, concurrency_key, priority,
    score_ms, max_duration_seconds, retry_policy, secrets, secret_names, metadata, tags, attempt,
    engine, grade, accelerated, base_version_id, result_version_id, event_cursor, trace_id,
    api_version, sdk_version, cli_version, created_ms, updated_ms, started_ms)
SELECT $1, environment_id, $3, $4, deployment_id, deployment_task_id, lane_id, task_id, 'waiting',
    'waiting', 'fork', $5, queue, concurrency_key, priority, $14 - priority * 1000,
    max_duration_seconds, retry_policy, secrets, secret_names, coalesce($6, metadata),
    coalesce($7, tags), $9, engine, grade, accelerated, base_version_id, $10, 1, $8, $11, $12, $13,
    $14, $14, $14
FROM runs WHERE id = $2;

-- name: fork_values (id, source)
INSERT INTO run_values (run_id, payload) SELECT $1, payload FROM run_values WHERE run_id = $2;

-- name: fork_wait (id, source, run, token, timeout_at, checkpoint, now)
INSERT INTO waits (id, environment_id, run_id, attempt, op, kind, condition, suspension, params,
    metadata, tags, timeout, timeout_at_ms, due_ms, token_id, owns_token, checkpoint_id,
    created_ms, updated_ms)
SELECT $1, environment_id, $3, attempt, op, kind, 'pending', 'parked', params, metadata, tags,
    timeout, $5, due_ms, $4, CASE WHEN kind = 'token' THEN 1 ELSE 0 END, $6, $7, $7
FROM waits WHERE id = $2;

-- name: fork_checkpoint (id, source, run, wait, now)
INSERT INTO checkpoints (id, environment_id, run_id, wait_id, attempt, lease_id, state,
    manifest_id, key_id, compat, compat_facts, op, can_fork, version_id, logical_bytes,
    stored_bytes, created_ms, staged_ms, ready_ms)
SELECT $1, environment_id, $3, $4, attempt, lease_id, 'ready', manifest_id, key_id, compat,
    compat_facts, op, can_fork, version_id, logical_bytes, stored_bytes, $5, $5, $5
FROM checkpoints WHERE id = $2;

-- name: fork_source (run) -> task_id, deployment_id, payload, max_duration_seconds, secret_names, retry_policy, metadata, tags
SELECT r.task_id, r.deployment_id, v.payload, r.max_duration_seconds, r.secret_names,
    r.retry_policy, r.metadata, r.tags
FROM runs r JOIN run_values v ON v.run_id = r.id WHERE r.id = $1;

-- name: purge_checkpoint_refs (environment)
DELETE FROM object_refs WHERE owner_id IN (SELECT id FROM checkpoints WHERE environment_id = $1);

-- name: purge_checkpoints (environment)
DELETE FROM checkpoints WHERE environment_id = $1;

-- name: checkpoint_keys () -> key_id, n
-- The workers' keys that something is still sealed with.
SELECT key_id, count(*) FROM checkpoints WHERE state IN ('staged', 'ready')
GROUP BY key_id ORDER BY key_id;
