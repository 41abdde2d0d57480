-- name: run_events_after (run, cursor, limit) -> cursor, id, kind, at_ms, category, severity, source, redaction_class, attributes, attempt
SELECT cursor, id, kind, at_ms, category, severity, source, redaction_class, attributes, attempt
FROM run_events WHERE run_id = $1 AND cursor > $2 ORDER BY cursor LIMIT $3;

-- name: log_chunk_insert (run, cursor, attempt, sequence, stream, offset, bytes, n_bytes, observed)
INSERT INTO log_chunks (run_id, cursor, attempt, sequence, stream, offset_start, bytes, n_bytes,
    observed_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: log_number (run, stdout, stderr) -> cursor
UPDATE runs SET log_cursor = log_cursor + 1, stdout_bytes = stdout_bytes + $2,
    stderr_bytes = stderr_bytes + $3
WHERE id = $1 RETURNING log_cursor;

-- name: log_sizes_after (run, cursor, limit) -> cursor, n_bytes
SELECT cursor, n_bytes FROM log_chunks WHERE run_id = $1 AND cursor > $2 ORDER BY cursor LIMIT $3;

-- name: log_chunks_between (run, after, upto) -> cursor, attempt, stream, observed_ms, bytes
SELECT cursor, attempt, stream, observed_ms, bytes FROM log_chunks
WHERE run_id = $1 AND cursor > $2 AND cursor <= $3 ORDER BY cursor;

-- name: log_chunks_before (run, cursor, stream, limit) -> cursor, bytes
SELECT cursor, bytes FROM log_chunks
WHERE run_id = $1 AND cursor < $2 AND stream = $3 ORDER BY cursor DESC LIMIT $4;
