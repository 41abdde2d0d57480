-- Streams of a session: append-only lists of records, read by cursor.

-- Made by the first record; until then a stream is only declared, in deployments.streams. Its id
-- follows from session and name, so it is the same before and after. `sequence` is that of the
-- newest record, and whoever appends locks this row.
CREATE TABLE streams (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    session_id TEXT NOT NULL REFERENCES sessions (id),
    name TEXT NOT NULL,
    direction TEXT NOT NULL CHECK (direction IN ('input', 'output')),
    sequence BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    UNIQUE (session_id, name)
);

-- `written_by` says who: user:<id>, key:<id>, public:<id> or run:<id>. An idempotency key holds
-- as long as its record.
CREATE TABLE stream_records (
    stream_id TEXT NOT NULL REFERENCES streams (id),
    sequence BIGINT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    data TEXT NOT NULL,
    content_type TEXT NOT NULL,
    correlation_id TEXT,
    idempotency_key TEXT,
    fingerprint BYTEA,
    written_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (stream_id, sequence)
);

CREATE UNIQUE INDEX stream_records_key ON stream_records (stream_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX stream_records_correlation ON stream_records (stream_id, correlation_id, sequence)
    WHERE correlation_id IS NOT NULL;

-- How far the program of a run has come, by correlation id ('' for waits without one). A run
-- begins where the other runs of its session ended, and so does each of its attempts.
CREATE TABLE stream_positions (
    stream_id TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (stream_id, correlation_id, run_id)
);
