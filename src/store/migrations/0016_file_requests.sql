-- What was asked of a mounted sandbox about its files, until the answer was taken; some seconds.

CREATE TABLE file_requests (
    id TEXT PRIMARY KEY,
    call_id TEXT NOT NULL,
    part BIGINT NOT NULL,
    lease_id TEXT NOT NULL,
    code TEXT,
    reason TEXT,
    data BYTEA,
    size_bytes BIGINT,
    more BIGINT,
    created_ms BIGINT NOT NULL,
    answered_ms BIGINT
);

CREATE INDEX file_requests_call ON file_requests (call_id, part);
CREATE INDEX file_requests_created ON file_requests (created_ms);
