-- name: worker_find_resource (group, resource) -> id, machine_id, state, heartbeat_ms
SELECT id, machine_id, state, heartbeat_ms FROM workers
WHERE group_id = $1 AND resource_id = $2 AND state <> 'disabled'
ORDER BY created_ms DESC LIMIT 1;

-- name: worker_insert (id, group, resource, machine, hash, key_id, roles, labels, version, protocol, now)
INSERT INTO workers (id, group_id, resource_id, machine_id, credential_hash, key_id, state, roles,
    labels, version, protocol, heartbeat_ms, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, 'registering', $7, $8, $9, $10, $11, $11, $11);

-- name: worker_enlist_again (id, machine, hash, key_id, roles, labels, version, protocol, now)
UPDATE workers SET machine_id = $2, credential_hash = $3, key_id = $4,
    state = CASE WHEN state = 'draining' THEN state ELSE 'registering' END, roles = $5,
    labels = $6, version = $7, protocol = $8, heartbeat_ms = $9, updated_ms = $9
WHERE id = $1;

-- name: worker_find_credential (hash) -> id, group_id, machine_id, state, epoch, heartbeat_ms
SELECT id, group_id, machine_id, state, epoch, heartbeat_ms FROM workers
WHERE credential_hash = $1;

-- name: worker_open_session (id, boot, machine, state, now) -> epoch
UPDATE workers SET epoch = epoch + 1, boot_id = $2, machine_id = $3, state = $4,
    heartbeat_ms = $5, heartbeat_number = 0, updated_ms = $5
WHERE id = $1 RETURNING epoch;

-- name: worker_activate (id, epoch, old_state, state, capabilities, engine, grade, accelerated, arch, now, roles, compat, key_id)
UPDATE workers SET state = $4, capabilities = $5, engine = $6, grade = $7, accelerated = $8,
    arch = $9, heartbeat_ms = $10, updated_ms = $10, roles = $11, compat = $12,
    checkpoint_key_id = $13
WHERE id = $1 AND epoch = $2 AND state = $3;

-- name: worker_get (id) -> id, group_id, state, epoch, grade, arch, oldest_message, roles, compat, checkpoint_key_id, capabilities
SELECT w.id, w.group_id, w.state, w.epoch, w.grade, w.arch,
    (SELECT min(m.cursor) FROM worker_messages m WHERE m.worker_id = w.id), w.roles, w.compat,
    w.checkpoint_key_id, w.capabilities
FROM workers w WHERE w.id = $1;

-- name: worker_beat (id, epoch, number, free, paused, quarantined, now) -> state
UPDATE workers SET heartbeat_ms = $7, heartbeat_number = $3, free = $4, paused = $5,
    quarantined = $6, updated_ms = $7
WHERE id = $1 AND epoch = $2 RETURNING state;

-- name: worker_set_state (id, old_state, state, now)
UPDATE workers SET state = $3, updated_ms = $4 WHERE id = $1 AND state = $2;

-- name: worker_drain (id, old_state, state, now)
UPDATE workers SET state = $3, drain_requested_ms = $4, updated_ms = $4
WHERE id = $1 AND state = $2;

-- name: worker_list (organization) -> id, resource_id, group_name, state, epoch, roles, labels, engine, version, capabilities, paused, quarantined, heartbeat_ms, active_leases
SELECT w.id, w.resource_id, g.name, w.state, w.epoch, w.roles, w.labels, w.engine, w.version,
    w.capabilities, w.paused, w.quarantined, w.heartbeat_ms,
    (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.live = 1)
FROM workers w JOIN worker_groups g ON g.id = w.group_id
WHERE g.organization_id = $1
ORDER BY w.created_ms, w.id LIMIT 200;

-- name: worker_show (organization, id) -> id, resource_id, group_name, state, epoch, roles, labels, engine, version, capabilities, paused, quarantined, heartbeat_ms, active_leases, group_id
SELECT w.id, w.resource_id, g.name, w.state, w.epoch, w.roles, w.labels, w.engine, w.version,
    w.capabilities, w.paused, w.quarantined, w.heartbeat_ms,
    (SELECT count(*) FROM leases l WHERE l.worker_id = w.id AND l.live = 1),
    w.group_id
FROM workers w JOIN worker_groups g ON g.id = w.group_id
WHERE g.organization_id = $1 AND w.id = $2;

-- name: worker_group_list (organization) -> name, state, workers
SELECT g.name, g.state, (SELECT count(*) FROM workers w WHERE w.group_id = g.id
    AND w.state IN ('registering', 'active', 'draining'))
FROM worker_groups g WHERE g.organization_id = $1 ORDER BY g.name;

-- name: worker_group_set (organization, name, state) -> id
UPDATE worker_groups SET state = $3 WHERE organization_id = $1 AND name = $2 RETURNING id;

-- name: worker_messages_after (worker, cursor) -> cursor, lease_id, type, body
SELECT cursor, lease_id, type, body FROM worker_messages
WHERE worker_id = $1 AND cursor > $2 ORDER BY cursor LIMIT 64;

-- name: worker_messages_forget (worker, cursor)
DELETE FROM worker_messages WHERE worker_id = $1 AND cursor <= $2;

-- name: workers_silent (before, registering_before, limit) -> id, state
SELECT id, state FROM workers
WHERE state IN ('registering', 'active', 'draining') AND heartbeat_ms < $1
    AND (state <> 'registering' OR heartbeat_ms < $2)
ORDER BY heartbeat_ms LIMIT $3;

-- name: worker_lose (id, old_state, state, before, now)
UPDATE workers SET state = $3, updated_ms = $5
WHERE id = $1 AND state = $2 AND heartbeat_ms < $4;

-- name: group_lock (id) -> state
UPDATE worker_groups SET touched = touched + 1 WHERE id = $1 RETURNING state;

-- name: worker_group_lock (worker)
UPDATE worker_groups SET touched = touched + 1
WHERE id = (SELECT group_id FROM workers WHERE id = $1);

-- name: run_lease (id, old_state, state, now) -> attempt, dispatches, lease_sequence
-- Whoever moves the run right now waits for the lane that the claim holds: it is let go.
UPDATE runs SET state = $3, dispatches = dispatches + 1, lease_sequence = lease_sequence + 1,
    updated_ms = $4
WHERE id = (SELECT r.id FROM runs r WHERE r.id = $1 AND r.state = $2 {skip_locked}) RETURNING attempt, dispatches, lease_sequence;

-- name: build_lease (id, now) -> build_number, lease_sequence
UPDATE deployments SET build_number = build_number + 1, lease_sequence = lease_sequence + 1,
    updated_ms = $2
WHERE id = (SELECT d.id FROM deployments d WHERE d.id = $1 AND d.state = 'queued' {skip_locked})
RETURNING build_number, lease_sequence;

-- name: lease_insert (id, kind, subject, environment, lane, attempt, sequence, worker, epoch, now, expires, deadline)
INSERT INTO leases (id, subject_kind, subject_id, environment_id, lane_id, attempt, sequence,
    worker_id, epoch, state, live, granted_ms, expires_ms, state_deadline_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'assigned', 1, $10, $11, $12);

-- name: leases_unheard (worker, epoch) -> id
SELECT id FROM leases WHERE worker_id = $1 AND epoch = $2 AND live = 1 AND state = 'assigned';

-- name: leases_of_worker (worker) -> id
SELECT id FROM leases WHERE worker_id = $1 AND live = 1 ORDER BY id;

-- name: run_grant (lease) -> lease_id, sequence, expires_ms, environment_id, project_id, run_id, attempt, session_id, workspace_id, task_id, file_path, export_name, max_duration_seconds, active_ms, deployment_id, version, bundle_digest, bundle_bytes, sandbox_id, image_digest, mount_path, cpu_millis, memory_mib, disk_mib, network, payload, image_id, project_slug, secret_names, preload, base_manifest
SELECT l.id, l.sequence, l.expires_ms, l.environment_id, e.project_id, r.id, l.attempt,
    r.session_id, r.workspace_id, t.task_id, t.file_path, t.export_name, r.max_duration_seconds,
    r.active_ms - r.active_base_ms, d.id, d.version, d.bundle_digest, o.size_bytes, s.sandbox_id, s.image_digest,
    s.mount_path, s.cpu_millis, s.memory_mib, s.disk_mib, s.network, v.payload, s.image_id, p.slug,
    r.secret_names, t.preload,
    (SELECT b.manifest_id FROM versions b WHERE b.id = r.base_version_id)
FROM leases l
JOIN environments e ON e.id = l.environment_id
JOIN projects p ON p.id = e.project_id
JOIN runs r ON r.id = l.subject_id
JOIN run_values v ON v.run_id = r.id
JOIN deployment_tasks t ON t.id = r.deployment_task_id
JOIN deployment_sandboxes s ON s.id = t.deployment_sandbox_id
JOIN deployments d ON d.id = r.deployment_id
LEFT JOIN objects o ON o.id = d.bundle_object_id
WHERE l.id = $1 AND l.subject_kind = 'run';

-- name: build_grant (lease) -> lease_id, sequence, expires_ms, environment_id, project_id, project_slug, deployment_id, content_hash, source_object_id, source_bytes, env_sealed, no_cache, version
SELECT l.id, l.sequence, l.expires_ms, l.environment_id, e.project_id, p.slug, d.id,
    d.content_hash, d.source_object_id, d.source_bytes, d.env_sealed, d.no_cache, d.version
FROM leases l
JOIN environments e ON e.id = l.environment_id
JOIN projects p ON p.id = e.project_id
JOIN deployments d ON d.id = l.subject_id
WHERE l.id = $1 AND l.subject_kind = 'build';

-- name: lease_lock (id) -> id, subject_kind, subject_id, environment_id, lane_id, attempt, sequence, worker_id, epoch, state, live, granted_ms, started_ms, expires_ms, prev_expires_ms, state_deadline_ms, hard_deadline_ms, finalize_fp, complete_fp, complete_answer
UPDATE leases SET expires_ms = expires_ms WHERE id = $1
RETURNING id, subject_kind, subject_id, environment_id, lane_id, attempt, sequence, worker_id,
    epoch, state, live, granted_ms, started_ms, expires_ms, prev_expires_ms, state_deadline_ms,
    hard_deadline_ms, finalize_fp, complete_fp, complete_answer;

-- name: run_lock (id)
UPDATE runs SET updated_ms = updated_ms WHERE id = $1;

-- name: worker_epoch (id) -> epoch, state
SELECT epoch, state FROM workers WHERE id = $1;

-- name: lease_move (id, old_state, state, live, deadline, now)
UPDATE leases SET state = $3, live = $4, state_deadline_ms = $5,
    ended_ms = CASE WHEN CAST($4 AS BIGINT) = 1 THEN ended_ms ELSE $6 END
WHERE id = $1 AND state = $2;

-- name: lease_set_started (id, now, expires, hard_deadline)
UPDATE leases SET started_ms = $2, prev_expires_ms = expires_ms, expires_ms = $3,
    hard_deadline_ms = $4
WHERE id = $1;

-- name: lease_renew (id, held, expires)
UPDATE leases SET prev_expires_ms = expires_ms, expires_ms = $3
WHERE id = $1 AND expires_ms = $2 AND live = 1;

-- name: lease_set_finalize (id, fingerprint)
UPDATE leases SET finalize_fp = $2 WHERE id = $1;

-- name: lease_set_complete (id, fingerprint, answer)
UPDATE leases SET complete_fp = $2, complete_answer = $3 WHERE id = $1;

-- name: lease_operation_note (lease, operation, fingerprint, now)
INSERT INTO lease_operations (lease_id, operation, fingerprint, created_ms)
VALUES ($1, $2, $3, $4) ON CONFLICT (lease_id, operation) DO NOTHING;

-- name: lease_operations_forget (lease)
DELETE FROM lease_operations WHERE lease_id = $1;

-- name: attempt_upsert (run, number, state, now)
INSERT INTO attempts (run_id, number, state, created_ms, started_ms)
VALUES ($1, $2, $3, $4, $4)
ON CONFLICT (run_id, number) DO UPDATE SET state = excluded.state;

-- name: attempt_finish (run, number, state, exit_code, error, now)
UPDATE attempts SET state = $3, exit_code = $4, error = $5, finished_ms = $6
WHERE run_id = $1 AND number = $2;

-- name: attempt_close (run, number, state, now)
UPDATE attempts SET state = $3, finished_ms = $4
WHERE run_id = $1 AND number = $2 AND state = 'executing';

-- name: log_position (run, sequence, stream) -> end
SELECT coalesce((SELECT offset_start + n_bytes FROM log_chunks
    WHERE run_id = $1 AND sequence = $2 AND stream = $3 ORDER BY offset_start DESC LIMIT 1), 0);

-- name: log_overlap (run, sequence, stream, start, end) -> offset_start, bytes
SELECT offset_start, bytes FROM log_chunks
WHERE run_id = $1 AND sequence = $2 AND stream = $3 AND offset_start < $5
    AND offset_start + n_bytes > $4
ORDER BY offset_start;

-- name: run_log_advance (run, chunks, stdout, stderr, now) -> log_cursor
UPDATE runs SET log_cursor = log_cursor + $2, stdout_bytes = stdout_bytes + $3,
    stderr_bytes = stderr_bytes + $4, updated_ms = $5
WHERE id = $1 RETURNING log_cursor;

-- name: deployment_begin (id, old_state, now)
UPDATE deployments SET state = 'building', building_ms = coalesce(building_ms, $3),
    updated_ms = $3
WHERE id = $1 AND state = $2;

-- name: deployment_requeue (id, old_state, now)
UPDATE deployments SET state = 'queued', updated_ms = $3 WHERE id = $1 AND state = $2;

-- name: deployment_load (id) -> id, environment_id, state, build_number, version, created_ms, cancel_requested_ms
UPDATE deployments SET updated_ms = updated_ms WHERE id = $1
RETURNING id, environment_id, state, build_number, version, created_ms, cancel_requested_ms;

-- name: leases_overdue (now, late, limit) -> id
SELECT id FROM leases
WHERE live = 1 AND (expires_ms < $2 OR state_deadline_ms < $1 OR hard_deadline_ms < $1)
ORDER BY expires_ms LIMIT $3;

-- name: runs_past_ttl (now, limit) -> subject_id
SELECT subject_id FROM ready WHERE ttl_ms IS NOT NULL AND ttl_ms <= $1 AND kind = 'run'
ORDER BY ttl_ms LIMIT $2;

-- name: runs_past_cancel (now, limit) -> id
SELECT id FROM runs WHERE state = 'pending_cancel' AND cancel_deadline_ms <= $1
ORDER BY cancel_deadline_ms LIMIT $2;

-- name: deployments_stale (queued_before, building_before, limit) -> id, state
SELECT id, state FROM deployments
WHERE (state = 'queued' AND created_ms < $1) OR (state = 'building' AND building_ms < $2)
ORDER BY created_ms LIMIT $3;

-- name: idempotency_forget (now)
DELETE FROM idempotency WHERE expires_ms <= $1;

-- name: user_sessions_forget (before)
DELETE FROM user_sessions WHERE expires_ms <= $1 OR revoked_ms <= $1;

-- name: run_set_isolation (id, engine, grade, accelerated, now)
UPDATE runs SET engine = $2, grade = $3, accelerated = $4, started_ms = coalesce(started_ms, $5)
WHERE id = $1;

-- name: environment_group (environment) -> group_id
SELECT group_id FROM environments WHERE id = $1;
