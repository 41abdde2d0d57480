-- name: wait_insert (id, environment, run, attempt, lease, op, kind, condition, suspension, params, metadata, tags, timeout, timeout_at, due, token, owns_token, decision, park_at, now)
INSERT INTO waits (id, environment_id, run_id, attempt, lease_id, op, kind, condition, suspension,
    params, metadata, tags, timeout, timeout_at_ms, due_ms, token_id, owns_token, decision,
    park_at_ms, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
    $20);

-- name: wait_lock (id) -> id, environment_id, run_id, attempt, lease_id, op, kind, condition, suspension, params, metadata, tags, timeout, timeout_at_ms, due_ms, token_id, owns_token, decision, resume_version, resume_number, checkpoint_id, checkpoint_failures, park_at_ms, created_ms, settled_ms
UPDATE waits SET updated_ms = updated_ms WHERE id = $1
RETURNING id, environment_id, run_id, attempt, lease_id, op, kind, condition, suspension, params,
    metadata, tags, timeout, timeout_at_ms, due_ms, token_id, owns_token, decision,
    resume_version, resume_number, checkpoint_id, checkpoint_failures, park_at_ms, created_ms,
    settled_ms;

-- name: wait_find_open (run) -> id
SELECT id FROM waits
WHERE run_id = $1
    AND suspension IN ('hot', 'checkpointing', 'parked', 'resume_pending', 'resuming');

-- name: wait_find_op (run, lease, op) -> id
SELECT id FROM waits WHERE run_id = $1 AND lease_id = $2 AND op = $3;

-- name: wait_move (id, old_suspension, suspension, now, released)
UPDATE waits SET suspension = $3, updated_ms = $4, released_ms = coalesce($5, released_ms)
WHERE id = $1 AND suspension = $2;

-- name: wait_decide (id, condition, decision, now)
UPDATE waits SET condition = $2, decision = $3, settled_ms = $4, updated_ms = $4
WHERE id = $1 AND condition = 'pending';

-- name: waits_of_token (token) -> id, run_id
SELECT id, run_id FROM waits WHERE token_id = $1 AND condition = 'pending' ORDER BY run_id;

-- name: waits_due (now, limit) -> id, run_id
SELECT id, run_id FROM waits WHERE condition = 'pending' AND due_ms IS NOT NULL AND due_ms <= $1
ORDER BY due_ms LIMIT $2;

-- name: waits_timed_out (now, limit) -> id, run_id
-- A wait with a token of its own expires with that.
SELECT id, run_id FROM waits
WHERE condition = 'pending' AND timeout_at_ms IS NOT NULL AND timeout_at_ms <= $1
    AND owns_token = 0
ORDER BY timeout_at_ms LIMIT $2;

-- name: wait_list (environment, run) -> id, run_id, attempt, kind, condition, suspension, params, metadata, tags, timeout, timeout_at_ms, token_id, checkpoint_id, checkpoint_state, checkpoint_bytes, created_ms, settled_ms, released_ms
SELECT w.id, w.run_id, w.attempt, w.kind, w.condition, w.suspension, w.params, w.metadata, w.tags,
    w.timeout, w.timeout_at_ms, w.token_id, w.checkpoint_id, c.state, c.stored_bytes,
    w.created_ms, w.settled_ms, w.released_ms
FROM waits w LEFT JOIN checkpoints c ON c.id = w.checkpoint_id
WHERE w.environment_id = $1 AND w.run_id = $2
ORDER BY w.created_ms, w.id;

-- name: wait_pending (run) -> id, run_id, attempt, kind, condition, suspension, params, metadata, tags, timeout, timeout_at_ms, token_id, checkpoint_id, checkpoint_state, checkpoint_bytes, created_ms, settled_ms, released_ms
SELECT w.id, w.run_id, w.attempt, w.kind, w.condition, w.suspension, w.params, w.metadata, w.tags,
    w.timeout, w.timeout_at_ms, w.token_id, w.checkpoint_id, c.state, c.stored_bytes,
    w.created_ms, w.settled_ms, w.released_ms
FROM waits w LEFT JOIN checkpoints c ON c.id = w.checkpoint_id
WHERE w.run_id = $1
    AND w.suspension IN ('hot', 'checkpointing', 'parked', 'resume_pending', 'resuming');

-- name: lease_set_hard_deadline (id, deadline)
UPDATE leases SET hard_deadline_ms = $2 WHERE id = $1;

-- name: lease_operation_find (lease, operation) -> fingerprint, answer
SELECT fingerprint, answer FROM lease_operations WHERE lease_id = $1 AND operation = $2;

-- name: lease_operation_answer (lease, operation, fingerprint, answer, now)
INSERT INTO lease_operations (lease_id, operation, fingerprint, answer, created_ms)
VALUES ($1, $2, $3, $4, $5);
