-- The audit log, and stored secrets each under a data key of its own.

-- Every column but the mac is covered by the mac, and so is the mac of the entry before.
CREATE TABLE audit_entries (
    sequence BIGINT PRIMARY KEY,
    at_ms BIGINT NOT NULL,
    actor_type TEXT NOT NULL,
    actor_id TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    action TEXT NOT NULL,
    project_id TEXT NOT NULL,
    environment_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    request_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    key_id TEXT NOT NULL,
    mac BYTEA NOT NULL
);

-- The end of the chain. Whoever appends changes this row first, so that there is one order; the
-- seal is made with the key, so that an older end cannot be put here by who has not seen it.
CREATE TABLE audit_head (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    chain_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    key_id TEXT NOT NULL,
    mac BYTEA NOT NULL,
    seal BYTEA NOT NULL
);

-- What the last start of a server was told, as keyed hashes: only whether it changed is known.
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    digest BYTEA NOT NULL
);

-- The value is sealed under a data key, bound to environment and name; the data key is wrapped
-- under the key named.
DROP TABLE secrets;
CREATE TABLE secrets (
    id TEXT NOT NULL UNIQUE,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    name TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    wrapped BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (environment_id, name)
);

CREATE INDEX secrets_key ON secrets (key_id);
