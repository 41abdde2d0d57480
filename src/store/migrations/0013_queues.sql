-- Queues of any length. A claim compares heads, one row per lane and shape, and nothing behind them.

DROP VIEW run_objects;

-- What an item asks of a worker, once per environment: it fits with everything that waits in it, or
-- nothing of it does. '' asks for nothing. used_ms is not older than an hour while it is used.
CREATE TABLE shapes (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    kind TEXT NOT NULL CHECK (kind IN ('run', 'resume', 'build', 'mount')),
    cpu_millis BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib BIGINT NOT NULL,
    arch TEXT NOT NULL,
    compat TEXT NOT NULL,
    key_id TEXT NOT NULL,
    used_ms BIGINT NOT NULL,
    UNIQUE (environment_id, kind, cpu_millis, memory_mib, disk_mib, arch, compat, key_id)
);

INSERT INTO shapes (id, environment_id, kind, cpu_millis, memory_mib, disk_mib, arch, compat,
    key_id, used_ms)
SELECT min(r.id), n.environment_id, r.kind, r.cpu_millis, r.memory_mib, r.disk_mib,
    coalesce(r.arch, ''), coalesce(r.compat, ''), coalesce(r.key_id, ''), 0
FROM ready r JOIN lanes n ON n.id = r.lane_id
GROUP BY n.environment_id, r.kind, r.cpu_millis, r.memory_mib, r.disk_mib, coalesce(r.arch, ''),
    coalesce(r.compat, ''), coalesce(r.key_id, '');

DROP INDEX ready_order;
DROP INDEX ready_resume;
DROP INDEX ready_due;
DROP INDEX ready_ttl;
ALTER TABLE ready RENAME TO ready_before;

-- One row exactly while its subject is queued. is_due follows not_before_ms by a pass of the
-- sweeper; ttl_ms is the time after which it must not be started for the first time.
CREATE TABLE ready (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('run', 'resume', 'build', 'mount')),
    subject_id TEXT NOT NULL UNIQUE,
    lane_id TEXT NOT NULL REFERENCES lanes (id),
    shape_id TEXT NOT NULL REFERENCES shapes (id),
    score_ms BIGINT NOT NULL,
    not_before_ms BIGINT NOT NULL,
    is_due BIGINT NOT NULL CHECK (is_due IN (0, 1)),
    ttl_ms BIGINT
);

INSERT INTO ready (id, kind, subject_id, lane_id, shape_id, score_ms, not_before_ms, is_due, ttl_ms)
SELECT r.id, r.kind, r.subject_id, r.lane_id, s.id, r.score_ms, r.not_before_ms, 0, r.ttl_ms
FROM ready_before r
JOIN lanes n ON n.id = r.lane_id
JOIN shapes s ON s.environment_id = n.environment_id AND s.kind = r.kind
    AND s.cpu_millis = r.cpu_millis AND s.memory_mib = r.memory_mib AND s.disk_mib = r.disk_mib
    AND s.arch = coalesce(r.arch, '') AND s.compat = coalesce(r.compat, '')
    AND s.key_id = coalesce(r.key_id, '');

DROP TABLE ready_before;

CREATE INDEX ready_order ON ready (lane_id, shape_id, is_due, score_ms, id);
CREATE INDEX ready_shape ON ready (shape_id);
CREATE INDEX ready_later ON ready (not_before_ms) WHERE is_due = 0;
CREATE INDEX ready_ttl ON ready (ttl_ms) WHERE ttl_ms IS NOT NULL;

-- The first due item of each lane and shape; closed while the lane is at its limit.
CREATE TABLE heads (
    lane_id TEXT NOT NULL REFERENCES lanes (id),
    shape_id TEXT NOT NULL,
    ready_id TEXT NOT NULL,
    score_ms BIGINT NOT NULL,
    is_open BIGINT NOT NULL CHECK (is_open IN (0, 1)),
    PRIMARY KEY (lane_id, shape_id)
);

CREATE INDEX heads_open ON heads (shape_id, score_ms, ready_id) WHERE is_open = 1;

-- Lanes of concurrency keys come and go, so what is over names one that may be gone.
ALTER TABLE lanes ADD COLUMN used_ms BIGINT NOT NULL DEFAULT 0;
CREATE INDEX lanes_unused ON lanes (used_ms) WHERE concurrency_key <> '';

ALTER TABLE runs ADD COLUMN lane TEXT NOT NULL DEFAULT '';
UPDATE runs SET lane = lane_id;
ALTER TABLE runs DROP COLUMN lane_id;
ALTER TABLE runs RENAME COLUMN lane TO lane_id;
CREATE INDEX runs_live_lane ON runs (lane_id) WHERE finished_ms IS NULL;

DROP INDEX leases_live_lane;
ALTER TABLE leases ADD COLUMN lane TEXT NOT NULL DEFAULT '';
UPDATE leases SET lane = lane_id;
ALTER TABLE leases DROP COLUMN lane_id;
ALTER TABLE leases RENAME COLUMN lane TO lane_id;
CREATE INDEX leases_live_lane ON leases (lane_id) WHERE live = 1;

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
            AND w.grade >= e.min_grade AND s.arch IN ('', w.arch)
            AND (y.kind <> 'resume' OR (w.compat = s.compat AND w.checkpoint_key_id = s.key_id)))
        END AS fitting_workers
FROM runs r
JOIN environments e ON e.id = r.environment_id
JOIN deployments d ON d.id = r.deployment_id
JOIN run_values v ON v.run_id = r.id
LEFT JOIN lanes n ON n.id = r.lane_id
LEFT JOIN ready y ON y.subject_id = r.id
LEFT JOIN shapes s ON s.id = y.shape_id;
