-- name: stream_session_status (session) -> status
SELECT status FROM sessions WHERE id = $1;

-- name: stream_find (id) -> direction, sequence
SELECT direction, sequence FROM streams WHERE id = $1;

-- name: streams_declared (session) -> streams
SELECT d.streams FROM sessions s JOIN deployments d ON d.id = s.active_deployment_id
WHERE s.id = $1;

-- name: stream_list (session) -> id, name, direction, sequence
SELECT id, name, direction, sequence FROM streams WHERE session_id = $1;

-- name: stream_take_sequence (id, environment, session, name, direction, now) -> sequence, direction
INSERT INTO streams (id, environment_id, session_id, name, direction, sequence, created_ms)
VALUES ($1, $2, $3, $4, $5, 1, $6)
ON CONFLICT (id) DO UPDATE SET sequence = streams.sequence + 1
RETURNING sequence, direction;

-- name: stream_record_insert (stream, sequence, id, data, content_type, correlation, key, fingerprint, written_by, now)
INSERT INTO stream_records (stream_id, sequence, id, data, content_type, correlation_id,
    idempotency_key, fingerprint, written_by, created_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: stream_record_by_key (stream, key) -> id, stream_id, sequence, data, correlation_id, content_type, created_ms, fingerprint
SELECT id, stream_id, sequence, data, correlation_id, content_type, created_ms, fingerprint
FROM stream_records WHERE stream_id = $1 AND idempotency_key = $2;

-- name: stream_record_by_id (id) -> id, stream_id, sequence, data, correlation_id, content_type, created_ms
SELECT id, stream_id, sequence, data, correlation_id, content_type, created_ms
FROM stream_records WHERE id = $1;

-- name: stream_records_after (stream, cursor, limit) -> id, stream_id, sequence, data, correlation_id, content_type, created_ms
SELECT id, stream_id, sequence, data, correlation_id, content_type, created_ms
FROM stream_records WHERE stream_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3;

-- name: stream_records_correlated (stream, cursor, limit, correlation) -> id, stream_id, sequence, data, correlation_id, content_type, created_ms
SELECT id, stream_id, sequence, data, correlation_id, content_type, created_ms
FROM stream_records WHERE stream_id = $1 AND correlation_id = $4 AND sequence > $2
ORDER BY sequence LIMIT $3;

-- name: stream_position_get (stream, correlation, run) -> sequence
-- Where the other runs of the session ended.
SELECT coalesce(max(sequence), 0) FROM stream_positions
WHERE stream_id = $1 AND correlation_id = $2 AND run_id <> $3;

-- name: stream_position_set (stream, correlation, run, sequence)
INSERT INTO stream_positions (stream_id, correlation_id, run_id, sequence)
VALUES ($1, $2, $3, $4)
ON CONFLICT (stream_id, correlation_id, run_id) DO UPDATE SET sequence = excluded.sequence;

-- name: fork_streams (session) -> id, name
SELECT id, name FROM streams WHERE session_id = $1 ORDER BY name;

-- name: fork_stream (id, source, session, last, now)
INSERT INTO streams (id, environment_id, session_id, name, direction, sequence, created_ms)
SELECT $1, environment_id, $3, name, direction, $4, $5 FROM streams WHERE id = $2;

-- name: fork_stream_end (source, before, checkpoint) -> sequence
-- The newest of those that were there when the program was stored, and that come before another.
SELECT coalesce(max(sequence), 0) FROM stream_records
WHERE stream_id = $1 AND sequence < $2
    AND created_ms <= (SELECT coalesce(staged_ms, created_ms) FROM checkpoints WHERE id = $3);

-- name: fork_records_after (source, cursor, last, limit) -> sequence, data, content_type, correlation_id, idempotency_key, fingerprint, written_by, created_ms
SELECT sequence, data, content_type, correlation_id, idempotency_key, fingerprint, written_by,
    created_ms
FROM stream_records WHERE stream_id = $1 AND sequence > $2 AND sequence <= $3
ORDER BY sequence LIMIT $4;

-- name: fork_positions (id, source, last, source_run, run)
INSERT INTO stream_positions (stream_id, correlation_id, run_id, sequence)
SELECT $1, correlation_id, CASE WHEN run_id = $4 THEN $5 ELSE run_id END, sequence
FROM stream_positions WHERE stream_id = $2 AND sequence <= $3;

-- name: purge_stream_positions (environment)
DELETE FROM stream_positions
WHERE stream_id IN (SELECT id FROM streams WHERE environment_id = $1);

-- name: purge_stream_records (environment)
DELETE FROM stream_records WHERE stream_id IN (SELECT id FROM streams WHERE environment_id = $1);

-- name: purge_streams (environment)
DELETE FROM streams WHERE environment_id = $1;
