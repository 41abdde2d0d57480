-- name: lane_lock (id, now) -> max_live
-- Whoever changes what stands in a lane, or how much of it runs, holds its row.
UPDATE lanes SET used_ms = $2 WHERE id = $1 RETURNING max_live;

-- name: lane_lock_limited (id, now) -> max_live
UPDATE lanes SET used_ms = $2 WHERE id = $1 AND max_live IS NOT NULL RETURNING max_live;

-- name: lane_recount (id)
-- Opens or closes the heads of a lane, as its limit and its live leases say.
UPDATE heads SET is_open = n.is_open
FROM (SELECT CASE WHEN a.max_live IS NULL OR a.max_live >
            (SELECT count(*) FROM leases l WHERE l.lane_id = a.id AND l.live = 1)
        THEN 1 ELSE 0 END AS is_open
    FROM lanes a WHERE a.id = $1) n
WHERE heads.lane_id = $1 AND heads.is_open <> n.is_open;

-- name: lanes_collect (before, limit)
-- Lanes of concurrency keys that no run can come back to.
DELETE FROM lanes WHERE id IN (
    SELECT n.id FROM lanes n
    WHERE n.concurrency_key <> '' AND n.used_ms < $1
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.lane_id = n.id AND r.finished_ms IS NULL)
        AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.lane_id = n.id AND l.live = 1)
        AND NOT EXISTS (SELECT 1 FROM ready y WHERE y.lane_id = n.id)
    ORDER BY n.used_ms LIMIT $2 {skip_locked});

-- name: shape_find (environment, kind, cpu, memory, disk, arch, compat, key_id) -> id, used_ms
SELECT id, used_ms FROM shapes
WHERE environment_id = $1 AND kind = $2 AND cpu_millis = $3 AND memory_mib = $4 AND disk_mib = $5
    AND arch = $6 AND compat = $7 AND key_id = $8;

-- name: shape_insert (environment, kind, cpu, memory, disk, arch, compat, key_id, id, now)
INSERT INTO shapes (id, environment_id, kind, cpu_millis, memory_mib, disk_mib, arch, compat,
    key_id, used_ms)
VALUES ($9, $1, $2, $3, $4, $5, $6, $7, $8, $10)
ON CONFLICT (environment_id, kind, cpu_millis, memory_mib, disk_mib, arch, compat, key_id)
    DO NOTHING;

-- name: shape_touch (id, now)
UPDATE shapes SET used_ms = $2 WHERE id = $1;

-- name: shapes_collect (before, limit)
DELETE FROM shapes WHERE id IN (
    SELECT s.id FROM shapes s
    WHERE s.used_ms < $1 AND NOT EXISTS (SELECT 1 FROM ready y WHERE y.shape_id = s.id)
    LIMIT $2 {skip_locked});

-- name: ready_insert (id, kind, subject, lane, shape, score, not_before, is_due, ttl)
INSERT INTO ready (id, kind, subject_id, lane_id, shape_id, score_ms, not_before_ms, is_due, ttl_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: ready_find (subject) -> id, lane_id, shape_id
SELECT id, lane_id, shape_id FROM ready WHERE subject_id = $1;

-- name: ready_delete (id)
DELETE FROM ready WHERE id = $1;

-- name: ready_set_due (id)
UPDATE ready SET is_due = 1 WHERE id = $1;

-- name: ready_due (now, limit) -> subject_id, group_id
SELECT r.subject_id, e.group_id FROM ready r
JOIN lanes n ON n.id = r.lane_id
JOIN environments e ON e.id = n.environment_id
WHERE r.is_due = 0 AND r.not_before_ms <= $1 ORDER BY r.not_before_ms LIMIT $2;

-- name: head_offer (ready)
-- A due item becomes the head where it comes before the one that is.
INSERT INTO heads (lane_id, shape_id, ready_id, score_ms, is_open)
SELECT r.lane_id, r.shape_id, r.id, r.score_ms,
    CASE WHEN n.max_live IS NULL OR n.max_live >
            (SELECT count(*) FROM leases l WHERE l.lane_id = n.id AND l.live = 1)
        THEN 1 ELSE 0 END
FROM ready r JOIN lanes n ON n.id = r.lane_id
WHERE r.id = $1 AND r.is_due = 1
ON CONFLICT (lane_id, shape_id) DO UPDATE SET ready_id = excluded.ready_id,
    score_ms = excluded.score_ms
WHERE excluded.score_ms < heads.score_ms
    OR (excluded.score_ms = heads.score_ms AND excluded.ready_id < heads.ready_id);

-- name: head_drop (lane, shape, ready)
DELETE FROM heads WHERE lane_id = $1 AND shape_id = $2 AND ready_id = $3;

-- name: head_next (lane, shape)
INSERT INTO heads (lane_id, shape_id, ready_id, score_ms, is_open)
SELECT f.lane_id, f.shape_id, f.id, f.score_ms,
    CASE WHEN n.max_live IS NULL OR n.max_live >
            (SELECT count(*) FROM leases l WHERE l.lane_id = n.id AND l.live = 1)
        THEN 1 ELSE 0 END
FROM (SELECT r.lane_id, r.shape_id, r.id, r.score_ms FROM ready r
    WHERE r.lane_id = $1 AND r.shape_id = $2 AND r.is_due = 1
    ORDER BY r.score_ms, r.id LIMIT 1) f
JOIN lanes n ON n.id = f.lane_id;

-- name: claim_next (group, runs, builds, cpu, memory, disk, grade, arch, resumes, compat, key_id, mounts, rules) -> id, kind, subject_id, lane_id, environment_id, ttl_ms, score_ms, rejected_by, shape_id, live
-- The environment with the fewest live leases among those with an item that fits; in it the
-- smallest score. A shape is one step, however many items and lanes it has; leases are counted
-- only where environments compete.
WITH firsts AS MATERIALIZED (
    SELECT e.id AS environment_id, (
        SELECT h.ready_id FROM heads h WHERE h.shape_id = s.id AND h.is_open = 1
        ORDER BY h.score_ms, h.ready_id LIMIT 1) AS ready_id
    FROM environments e JOIN shapes s ON s.environment_id = e.id
    WHERE e.group_id = $1 AND e.min_grade <= $7
        AND ((s.kind = 'run' AND CAST($2 AS BIGINT) = 1 AND s.arch IN ('', CAST($8 AS TEXT))
                AND s.compat IN ('', CAST($13 AS TEXT)))
            OR (s.kind = 'build' AND CAST($3 AS BIGINT) = 1)
            OR (s.kind = 'mount' AND CAST($12 AS BIGINT) = 1 AND s.arch IN ('', CAST($8 AS TEXT))
                AND s.compat IN ('', CAST($13 AS TEXT)))
            OR (s.kind = 'resume' AND CAST($9 AS BIGINT) = 1 AND s.compat = $10
                AND s.key_id = $11))
        AND s.cpu_millis <= $4 AND s.memory_mib <= $5 AND s.disk_mib <= $6),
rivals AS MATERIALIZED (
    SELECT count(DISTINCT environment_id) AS n FROM firsts WHERE ready_id IS NOT NULL)
SELECT r.id, r.kind, r.subject_id, r.lane_id, f.environment_id, r.ttl_ms, r.score_ms,
    (SELECT CASE WHEN l.state = 'rejected' THEN l.worker_id END FROM leases l
        WHERE l.subject_kind = CASE WHEN r.kind = 'resume' THEN 'run' ELSE r.kind END
            AND l.subject_id = r.subject_id ORDER BY l.sequence DESC LIMIT 1), r.shape_id,
    CASE WHEN (SELECT n FROM rivals) > 1 THEN (SELECT count(*) FROM leases l
        WHERE l.environment_id = f.environment_id AND l.live = 1) ELSE 0 END AS live
FROM firsts f
JOIN ready r ON r.id = f.ready_id
ORDER BY live, r.score_ms, r.id LIMIT 8;

-- name: claim_equals (shape, score) -> id, kind, subject_id, lane_id, environment_id, ttl_ms, bundle, checkpoint_id, image
-- What comes in one shape at the same score, and what a worker may have ready for it.
SELECT r.id, r.kind, r.subject_id, r.lane_id, s.environment_id, r.ttl_ms, d.bundle_digest,
    (SELECT w.checkpoint_id FROM waits w WHERE w.run_id = u.id AND w.suspension = 'resume_pending'),
    b.image_digest
FROM heads h
JOIN ready r ON r.id = h.ready_id
JOIN shapes s ON s.id = h.shape_id
LEFT JOIN runs u ON u.id = r.subject_id
LEFT JOIN deployments d ON d.id = u.deployment_id
LEFT JOIN deployment_tasks t ON t.id = u.deployment_task_id
LEFT JOIN deployment_sandboxes b ON b.id = t.deployment_sandbox_id
WHERE h.shape_id = $1 AND h.is_open = 1 AND h.score_ms = $2
ORDER BY h.ready_id LIMIT 8;

-- name: group_has_work (group) -> n
-- Whether anything may be given out, to whomever.
SELECT count(*) FROM (SELECT s.id FROM environments e JOIN shapes s ON s.environment_id = e.id
    WHERE e.group_id = $1
        AND EXISTS (SELECT 1 FROM heads h WHERE h.shape_id = s.id AND h.is_open = 1) LIMIT 1) w;

-- name: claim_check (ready, limit, lane) -> is_there, has_place
-- Under the lane's lock: what was found may have been taken, or its lane filled, meanwhile.
SELECT (SELECT count(*) FROM ready r WHERE r.id = $1),
    CASE WHEN CAST($2 AS BIGINT) IS NULL OR $2 >
            (SELECT count(*) FROM leases l WHERE l.lane_id = $3 AND l.live = 1)
        THEN 1 ELSE 0 END;

-- name: subject_is_queued (id) -> n
SELECT (SELECT count(*) FROM runs WHERE id = $1 AND state = 'queued')
    + (SELECT count(*) FROM deployments WHERE id = $1 AND state = 'queued')
    + (SELECT count(*) FROM mounts WHERE id = $1 AND state = 'mounting' AND lease_id IS NULL);

-- name: run_to_queue (run) -> environment_id, lane_id, score_ms, ttl_ms, cpu_millis, memory_mib, disk_mib, arch, network
SELECT r.environment_id, r.lane_id, r.score_ms, CASE WHEN r.started_ms IS NULL THEN r.expires_ms END,
    s.cpu_millis, s.memory_mib, s.disk_mib, s.arch, s.network
FROM runs r
JOIN deployment_tasks t ON t.id = r.deployment_task_id
JOIN deployment_sandboxes s ON s.id = t.deployment_sandbox_id
WHERE r.id = $1;

-- name: lane_restore (run, now) -> id
-- The lane of a run that comes back after its lane was collected, as its deployment declares it.
INSERT INTO lanes (id, environment_id, kind, queue, concurrency_key, max_live, used_ms)
SELECT r.lane_id, r.environment_id, 'run', r.queue,
    CASE WHEN q.concurrency_limit IS NULL THEN '' ELSE coalesce(r.concurrency_key, '') END,
    q.concurrency_limit, $2
FROM runs r
LEFT JOIN deployment_queues q ON q.deployment_id = r.deployment_id AND q.name = r.queue
WHERE r.id = $1
ON CONFLICT (environment_id, kind, queue, concurrency_key) DO UPDATE SET used_ms = excluded.used_ms
RETURNING id;

-- name: run_set_lane (id, lane)
UPDATE runs SET lane_id = $2 WHERE id = $1;

-- name: checkpoint_needs (id) -> compat, key_id
SELECT compat, key_id FROM checkpoints WHERE id = $1;

-- name: groups_waiting () -> group_id
-- Groups with something to give out, should a wake-up have been missed.
SELECT g.id FROM worker_groups g
WHERE g.state = 'active' AND EXISTS (
    SELECT 1 FROM environments e JOIN shapes s ON s.environment_id = e.id
    WHERE e.group_id = g.id
        AND EXISTS (SELECT 1 FROM heads h WHERE h.shape_id = s.id AND h.is_open = 1));
