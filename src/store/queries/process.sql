-- name: process_insert (id, environment, workspace, mount, kind, state, command, cwd, env_names, env, detached, timeout, cols, rows, now)
INSERT INTO processes (id, environment_id, workspace_id, mount_id, kind, state, live, command, cwd,
    env_names, env_sealed, detached, timeout_ms, cols, rows, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15);

-- name: process_get (environment, workspace, kind, id) -> id, workspace_id, mount_id, kind, state, live, command, cwd, env_names, detached, cols, rows, pid, exit_code, signal, error, out_end, err_end, input_end, input_taken, input_closed_ms, created_ms, updated_ms, started_ms, ended_ms
SELECT id, workspace_id, mount_id, kind, state, live, command, cwd, env_names, detached, cols, rows,
    pid, exit_code, signal, error, out_end, err_end, input_end, input_taken, input_closed_ms,
    created_ms, updated_ms, started_ms, ended_ms
FROM processes WHERE environment_id = $1 AND workspace_id = $2 AND kind = $3 AND id = $4;

-- name: process_list (environment, workspace, kind, before, limit) -> id, workspace_id, mount_id, kind, state, live, command, cwd, env_names, detached, cols, rows, pid, exit_code, signal, error, out_end, err_end, input_end, input_taken, input_closed_ms, created_ms, updated_ms, started_ms, ended_ms
SELECT id, workspace_id, mount_id, kind, state, live, command, cwd, env_names, detached, cols, rows,
    pid, exit_code, signal, error, out_end, err_end, input_end, input_taken, input_closed_ms,
    created_ms, updated_ms, started_ms, ended_ms
FROM processes
WHERE environment_id = $1 AND workspace_id = $2 AND kind = $3 AND id < $4
ORDER BY id DESC LIMIT $5;

-- name: process_lock (id) -> id, environment_id, workspace_id, mount_id, kind, state, live, timeout_ms, out_end, err_end, input_end, input_taken, input_closed_ms, due_ms, due_signal
UPDATE processes SET updated_ms = updated_ms WHERE id = $1
RETURNING id, environment_id, workspace_id, mount_id, kind, state, live, timeout_ms, out_end,
    err_end, input_end, input_taken, input_closed_ms, due_ms, due_signal;

-- name: process_to_start (id) -> kind, state, command, cwd, env_sealed, cols, rows, timeout_ms
SELECT kind, state, command, cwd, env_sealed, cols, rows, timeout_ms FROM processes
WHERE id = $1 AND state IN ('queued', 'starting');

-- name: processes_of_mount (mount) -> id, state
SELECT id, state FROM processes WHERE mount_id = $1 AND live = 1 ORDER BY id;

-- name: mount_holder (mount) -> state, lease_id, worker_id
SELECT state, lease_id, worker_id FROM mounts WHERE id = $1;

-- name: process_move (id, old_state, state, live, pid, exit_code, signal, error, due, due_signal, now)
-- The first report sets when it began; its variables are not needed any more then.
UPDATE processes SET state = $3, live = $4, env_sealed = NULL, pid = coalesce($5, pid),
    exit_code = $6, signal = $7, error = coalesce(CAST($8 AS TEXT), error), due_ms = $9, due_signal = $10, updated_ms = $11,
    started_ms = CASE WHEN CAST($3 AS TEXT) IN ('running', 'open') THEN $11 ELSE started_ms END,
    ended_ms = CASE WHEN CAST($4 AS BIGINT) = 0 THEN $11 ELSE ended_ms END
WHERE id = $1 AND state = $2;

-- name: process_set_mount (id, mount)
UPDATE processes SET mount_id = $2 WHERE id = $1;

-- name: process_set_output (id, out_end, err_end, now)
UPDATE processes SET out_end = $2, err_end = $3, updated_ms = $4 WHERE id = $1;

-- name: process_set_taken (id, taken, now)
UPDATE processes SET input_taken = $2, updated_ms = $3 WHERE id = $1 AND input_taken < $2;

-- name: process_set_input (id, input_end, now)
UPDATE processes SET input_end = $2, updated_ms = $3 WHERE id = $1;

-- name: process_close_input (id, now)
UPDATE processes SET input_closed_ms = $2, updated_ms = $2 WHERE id = $1;

-- name: process_set_size (id, cols, rows, now)
UPDATE processes SET cols = $2, rows = $3, updated_ms = $4 WHERE id = $1;

-- name: process_set_due (id, due, signal, error)
UPDATE processes SET due_ms = $2, due_signal = $3, error = $4 WHERE id = $1;

-- name: process_chunk_insert (process, stream, start, end, id, bytes, observed, now)
INSERT INTO process_chunks (process_id, stream, offset_start, offset_end, id, bytes, observed_ms,
    created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: process_chunks_sizes (process, stream, after, limit) -> offset_start, offset_end
SELECT offset_start, offset_end FROM process_chunks
WHERE process_id = $1 AND stream = $2 AND offset_end > $3 ORDER BY offset_start LIMIT $4;

-- name: process_chunks_between (process, stream, after, upto) -> id, stream, offset_start, offset_end, bytes, observed_ms, created_ms
SELECT id, stream, offset_start, offset_end, bytes, observed_ms, created_ms FROM process_chunks
WHERE process_id = $1 AND stream = $2 AND offset_end > $3 AND offset_start < $4
ORDER BY offset_start;

-- name: process_chunks_first (process, stream) -> offset_start
SELECT offset_start FROM process_chunks WHERE process_id = $1 AND stream = $2
ORDER BY offset_start LIMIT 1;

-- name: process_chunks_trim (process, stream, before)
DELETE FROM process_chunks WHERE process_id = $1 AND stream = $2 AND offset_end <= $3;

-- name: process_input_forget (process)
DELETE FROM process_chunks WHERE process_id = $1 AND stream = 'input';

-- name: processes_due (now, limit) -> id
SELECT id FROM processes WHERE due_ms IS NOT NULL AND due_ms <= $1 ORDER BY due_ms LIMIT $2;

-- name: processes_late (before, limit) -> id
SELECT id FROM processes WHERE state IN ('queued', 'starting') AND created_ms < $1
ORDER BY created_ms LIMIT $2;
