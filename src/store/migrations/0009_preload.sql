-- Whether a process that has imported the task's module may be copied for its runs, as was observed
-- when the deployment was built; else why not. Of older deployments nothing is known.

ALTER TABLE deployment_tasks ADD COLUMN preload BIGINT NOT NULL DEFAULT 0
    CHECK (preload IN (0, 1));
ALTER TABLE deployment_tasks ADD COLUMN preload_reason TEXT;

DROP VIEW task_objects;

CREATE VIEW task_objects AS
SELECT t.id, t.task_id, t.deployment_id, d.version AS deployment_version, t.file_path,
    t.export_name, t.sandbox_id, t.accepts_payload, t.max_duration_seconds, t.queue, t.ttl_ms,
    t.retry_policy, t.secrets, t.schedules, t.environment_id,
    CASE WHEN e.current_deployment_id = d.id THEN 1 ELSE 0 END AS is_current, t.preload,
    t.preload_reason
FROM deployment_tasks t
JOIN deployments d ON d.id = t.deployment_id
JOIN environments e ON e.id = t.environment_id;
