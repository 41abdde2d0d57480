-- People who sign in: passwords, the first owner, invitations, password resets, device codes.

-- As libsodium writes it, with its parameters and salt. Null: this person has none.
ALTER TABLE users ADD COLUMN password_hash TEXT;

-- setup_hash: of the token that makes the first owner; setup_ms: when that was done.
ALTER TABLE organizations ADD COLUMN setup_hash BYTEA;
ALTER TABLE organizations ADD COLUMN setup_ms BIGINT;

CREATE INDEX user_sessions_user ON user_sessions (user_id) WHERE revoked_ms IS NULL;
CREATE INDEX api_keys_creator ON api_keys (created_by) WHERE revoked_ms IS NULL;

-- A pending one that is past expires_ms has expired.
CREATE TABLE invitations (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    email TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'accepted', 'revoked')),
    token_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    invited_by TEXT NOT NULL REFERENCES users (id),
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    settled_ms BIGINT
);

CREATE INDEX invitations_email ON invitations (email) WHERE status = 'pending';

CREATE TABLE password_resets (
    token_hash BYTEA PRIMARY KEY,
    key_id TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE INDEX password_resets_user ON password_resets (user_id);

-- Both codes are kept as hashes; rows go some time after they have expired.
CREATE TABLE device_codes (
    device_hash BYTEA PRIMARY KEY,
    user_hash BYTEA NOT NULL UNIQUE,
    key_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'consumed')),
    user_id TEXT REFERENCES users (id),
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    polled_ms BIGINT NOT NULL
);

CREATE INDEX device_codes_expiry ON device_codes (expires_ms);
