-- Runs that go on from a checkpoint: who can take them, and what is looked for in time.

-- What a worker's checkpoints fit and the key they are sealed with; null: it makes none.
ALTER TABLE workers ADD COLUMN compat TEXT;
ALTER TABLE workers ADD COLUMN checkpoint_key_id TEXT;

-- active_ms when the attempt was last begun from its start: what came before is not counted
-- against the time it may take.
ALTER TABLE runs ADD COLUMN active_base_ms BIGINT NOT NULL DEFAULT 0;

-- When the worker of a hot wait was told to park it.
ALTER TABLE waits ADD COLUMN nudged_ms BIGINT;

CREATE INDEX waits_park ON waits (park_at_ms)
    WHERE suspension = 'hot' AND condition = 'pending' AND nudged_ms IS NULL;
CREATE INDEX checkpoints_ready ON checkpoints (ready_ms) WHERE state = 'ready';

-- What only some workers can take lies apart, so that nobody else steps over it.
DROP INDEX ready_order;
CREATE INDEX ready_order ON ready (lane_id, score_ms, id) WHERE kind <> 'resume';
CREATE INDEX ready_resume ON ready (lane_id, compat, key_id, score_ms, id) WHERE kind = 'resume';

DROP VIEW run_objects;

-- A run as the API shows it. The last five columns say why a queued run is not given out.
CREATE VIEW run_objects AS
SELECT r.id, r.environment_id, e.project_id, r.session_id, r.workspace_id, r.deployment_id,
    r.deployment_task_id, d.version AS deployment_version, r.task_id, r.state, r.status,
    r.outcome, r.exit_code, r.error, r.attempt, r.turn_index, r.previous_run_id, r.forked_from,
    r.reason, r.cause, r.queue, r.concurrency_key, r.priority, r.ttl_ms,
    r.max_duration_seconds, r.active_ms, r.active_since_ms, r.retry_policy, r.secret_names,
    r.metadata, r.tags, r.engine, r.grade, r.accelerated, r.base_version_id,
    r.result_version_id, r.api_version, r.sdk_version, r.cli_version, r.created_ms,
    r.updated_ms, r.started_ms, r.finished_ms, v.payload, v.output,
    y.not_before_ms, n.max_live,
    CASE WHEN y.id IS NOT NULL AND n.max_live IS NOT NULL THEN
        (SELECT count(*) FROM leases l WHERE l.lane_id = n.id AND l.live = 1) END AS lane_live,
    CASE WHEN y.id IS NOT NULL THEN
        (SELECT count(*) FROM workers w WHERE w.group_id = e.group_id AND w.state = 'active')
        END AS group_workers,
    CASE WHEN y.id IS NOT NULL THEN
        (SELECT count(*) FROM workers w WHERE w.group_id = e.group_id AND w.state = 'active'
            AND w.grade >= y.min_grade AND (y.arch IS NULL OR w.arch = y.arch)
            AND (y.kind <> 'resume' OR (w.compat = y.compat AND w.checkpoint_key_id = y.key_id)))
        END AS fitting_workers
FROM runs r
JOIN environments e ON e.id = r.environment_id
JOIN deployments d ON d.id = r.deployment_id
JOIN run_values v ON v.run_id = r.id
JOIN lanes n ON n.id = r.lane_id
LEFT JOIN ready y ON y.subject_id = r.id;
