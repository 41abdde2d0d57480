-- name: environment_lock (environment) -> group_id, min_grade, current_deployment_id
UPDATE environments SET updated_ms = updated_ms WHERE id = $1
RETURNING group_id, min_grade, current_deployment_id;

-- name: deployment_pending_find (environment, content_hash) -> id
SELECT id FROM deployments
WHERE environment_id = $1 AND content_hash = $2 AND state IN ('queued', 'building');

-- name: deployment_next_number (environment, day) -> number
SELECT coalesce(max(version_number), 0) + 1 FROM deployments
WHERE environment_id = $1 AND version_day = $2;

-- name: deployment_insert (id, environment, version, day, number, hash, object, bytes, format, env, env_key, no_cache, api, sdk, cli, now)
INSERT INTO deployments (id, environment_id, version, version_day, version_number, state,
    content_hash, source_object_id, source_bytes, bundle_format_version, env_sealed, env_key_id,
    no_cache, api_version, sdk_version, cli_version, created_ms, updated_ms, event_cursor)
VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, 1);

-- name: deployment_get (environment, id) -> id, version, project_id, environment_id, config_project, content_hash, source_object_id, source_bytes, build_manifest_digest, deployment_manifest_digest, state, is_current, error, streams, promoted_ms, promotion_reason, api_version, sdk_version, cli_version, created_ms, building_ms, built_ms, deployed_ms, failed_ms
SELECT * FROM deployment_objects
WHERE environment_id = $1 AND (id = $2 OR version = $2);

-- name: deployment_current (environment) -> id, version, project_id, environment_id, config_project, content_hash, source_object_id, source_bytes, build_manifest_digest, deployment_manifest_digest, state, is_current, error, streams, promoted_ms, promotion_reason, api_version, sdk_version, cli_version, created_ms, building_ms, built_ms, deployed_ms, failed_ms
SELECT * FROM deployment_objects WHERE environment_id = $1 AND is_current = 1
AND id = (SELECT current_deployment_id FROM environments WHERE id = $1);

-- name: deployment_list (environment, before, limit) -> id, version, project_id, environment_id, config_project, content_hash, source_object_id, source_bytes, build_manifest_digest, deployment_manifest_digest, state, is_current, error, streams, promoted_ms, promotion_reason, api_version, sdk_version, cli_version, created_ms, building_ms, built_ms, deployed_ms, failed_ms
SELECT * FROM deployment_objects
WHERE environment_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: deployment_peek (environment, id) -> id, state, version, event_cursor
SELECT id, state, version, event_cursor FROM deployments
WHERE environment_id = $1 AND (id = $2 OR version = $2);

-- name: deployment_state_get (id) -> state, event_cursor
SELECT state, event_cursor FROM deployments WHERE id = $1;

-- name: deployment_fail (id, old_state, error, now)
UPDATE deployments SET state = 'failed', error = $3, failed_ms = $4, updated_ms = $4,
    env_sealed = NULL
WHERE id = $1 AND state = $2;

-- name: deployment_promote (id, reason, by, now)
UPDATE deployments SET promoted_ms = $4, promotion_reason = $2, promoted_by = $3, updated_ms = $4
WHERE id = $1;

-- name: environment_promote (environment, deployment, now)
UPDATE environments SET current_deployment_id = $2, updated_ms = $3 WHERE id = $1;

-- name: deployment_event_number (deployment, now) -> cursor
UPDATE deployments SET event_cursor = event_cursor + 1, updated_ms = $2 WHERE id = $1
RETURNING event_cursor;

-- name: deployment_event_insert (deployment, cursor, id, kind, at, category, severity, source, redaction, attributes)
INSERT INTO deployment_events (deployment_id, cursor, id, kind, at_ms, category, severity, source,
    redaction_class, attributes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: deployment_events_after (deployment, cursor, limit) -> cursor, id, kind, at_ms, category, severity, source, redaction_class, attributes
SELECT cursor, id, kind, at_ms, category, severity, source, redaction_class, attributes
FROM deployment_events WHERE deployment_id = $1 AND cursor > $2 ORDER BY cursor LIMIT $3;

-- name: deployment_tasks_list (deployment) -> id, task_id, deployment_id, deployment_version, file_path, export_name, sandbox_id, accepts_payload, max_duration_seconds, queue, ttl_ms, retry_policy, secrets, schedules, environment_id, is_current, preload, preload_reason
SELECT * FROM task_objects WHERE deployment_id = $1 ORDER BY task_id;

-- name: task_list (environment, after, limit) -> id, task_id, deployment_id, deployment_version, file_path, export_name, sandbox_id, accepts_payload, max_duration_seconds, queue, ttl_ms, retry_policy, secrets, schedules, environment_id, is_current, preload, preload_reason
SELECT * FROM task_objects
WHERE environment_id = $1 AND is_current = 1 AND id > $2
    AND deployment_id = (SELECT current_deployment_id FROM environments WHERE id = $1)
ORDER BY id LIMIT $3;

-- name: task_get (environment, id) -> id, task_id, deployment_id, deployment_version, file_path, export_name, sandbox_id, accepts_payload, max_duration_seconds, queue, ttl_ms, retry_policy, secrets, schedules, environment_id, is_current, preload, preload_reason
SELECT * FROM task_objects
WHERE environment_id = $1 AND (task_id = $2 OR id = $2)
    AND deployment_id = (SELECT current_deployment_id FROM environments WHERE id = $1);

-- name: task_payload_schema (environment, id) -> payload_schema
SELECT payload_schema FROM deployment_tasks WHERE environment_id = $1 AND id = $2;

-- name: deployment_sandboxes_list (deployment) -> id, sandbox_id, deployment_id, fingerprint, guest_abi, image_digest, mount_path, cpu_millis, memory_mib, disk_mib, network
SELECT id, sandbox_id, deployment_id, fingerprint, guest_abi, image_digest, mount_path, cpu_millis,
    memory_mib, disk_mib, network
FROM deployment_sandboxes WHERE deployment_id = $1 ORDER BY sandbox_id;

-- name: sandbox_list (environment, after, limit) -> id, sandbox_id, deployment_id, fingerprint, guest_abi, image_digest, mount_path, cpu_millis, memory_mib, disk_mib, network
SELECT s.id, s.sandbox_id, s.deployment_id, s.fingerprint, s.guest_abi, s.image_digest,
    s.mount_path, s.cpu_millis, s.memory_mib, s.disk_mib, s.network
FROM environments e JOIN deployment_sandboxes s ON s.deployment_id = e.current_deployment_id
WHERE e.id = $1 AND s.id > $2 ORDER BY s.id LIMIT $3;

-- name: sandbox_get (environment, id) -> id, sandbox_id, deployment_id, fingerprint, guest_abi, image_digest, mount_path, cpu_millis, memory_mib, disk_mib, network
SELECT s.id, s.sandbox_id, s.deployment_id, s.fingerprint, s.guest_abi, s.image_digest,
    s.mount_path, s.cpu_millis, s.memory_mib, s.disk_mib, s.network
FROM environments e JOIN deployment_sandboxes s ON s.deployment_id = e.current_deployment_id
WHERE e.id = $1 AND (s.sandbox_id = $2 OR s.id = $2);

-- name: deployment_queues_list (deployment) -> name, concurrency_limit
SELECT name, concurrency_limit FROM deployment_queues WHERE deployment_id = $1 ORDER BY name;

-- name: deployment_sandbox_insert (id, environment, deployment, sandbox, fingerprint, abi, digest, bytes, layers, config, mount, cpu, memory, disk, network, arch, image)
INSERT INTO deployment_sandboxes (id, environment_id, deployment_id, sandbox_id, fingerprint,
    guest_abi, image_digest, image_bytes, layers, image_config, mount_path, cpu_millis, memory_mib,
    disk_mib, network, arch, image_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- name: deployment_task_insert (id, environment, deployment, deployment_sandbox, task, sandbox, file, export, accepts, duration, queue, ttl, retry, secrets, schedules, preload, preload_reason, payload_schema)
INSERT INTO deployment_tasks (id, environment_id, deployment_id, deployment_sandbox_id, task_id,
    sandbox_id, file_path, export_name, accepts_payload, max_duration_seconds, queue, ttl_ms,
    retry_policy, secrets, schedules, preload, preload_reason, payload_schema)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);

-- name: deployment_queue_insert (deployment, name, limit)
INSERT INTO deployment_queues (deployment_id, name, concurrency_limit) VALUES ($1, $2, $3)
ON CONFLICT (deployment_id, name) DO UPDATE SET concurrency_limit = excluded.concurrency_limit;

-- name: deployment_deploy (id, old_state, now, manifest, manifest_digest, bundle_object, bundle_digest, streams, config_project)
UPDATE deployments SET state = 'deployed', built_ms = coalesce(built_ms, $3), deployed_ms = $3,
    updated_ms = $3, manifest = $4, deployment_manifest_digest = $5, bundle_object_id = $6,
    bundle_digest = $7, streams = $8, config_project = $9, env_sealed = NULL
WHERE id = $1 AND state = $2;
