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
    can_fork = $7, version_id = $8, logical_bytes = $9, stored_bytes = $10
WHERE id = $1;
