-- Images as objects, finished build steps shared by all workers, stored secrets, collection.

-- An object that dead_ms is set on can no longer be referred to; its file goes an hour later.
-- ready_ms is when it was last stored or referred to anew.
ALTER TABLE objects ADD COLUMN dead_ms BIGINT;

CREATE INDEX objects_live ON objects (ready_ms) WHERE dead_ms IS NULL;
CREATE INDEX objects_dead ON objects (dead_ms) WHERE dead_ms IS NOT NULL;

-- What the images of a deployment consist of: manifests, configurations, layers.
CREATE TABLE image_objects (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    object_id TEXT NOT NULL,
    PRIMARY KEY (deployment_id, object_id)
);

CREATE INDEX image_objects_object ON image_objects (object_id);
CREATE INDEX deployments_source ON deployments (source_object_id);
CREATE INDEX deployments_bundle ON deployments (bundle_object_id);

ALTER TABLE deployment_sandboxes ADD COLUMN image_id TEXT NOT NULL DEFAULT '';

-- A finished step; without an object it changed no file.
DROP TABLE image_steps;
CREATE TABLE image_steps (
    project_id TEXT NOT NULL REFERENCES projects (id),
    step_digest TEXT NOT NULL,
    object_id TEXT,
    diff_id TEXT,
    size_bytes BIGINT,
    created_ms BIGINT NOT NULL,
    used_ms BIGINT NOT NULL,
    PRIMARY KEY (project_id, step_digest),
    CHECK ((object_id IS NULL) = (diff_id IS NULL))
);

CREATE INDEX image_steps_object ON image_steps (object_id) WHERE object_id IS NOT NULL;
CREATE INDEX image_steps_used ON image_steps (used_ms);

-- Who is at a step now. A claim counts only while its lease is live.
CREATE TABLE image_claims (
    project_id TEXT NOT NULL REFERENCES projects (id),
    step_digest TEXT NOT NULL,
    lease_id TEXT NOT NULL REFERENCES leases (id),
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (project_id, step_digest)
);

CREATE INDEX image_claims_lease ON image_claims (lease_id);

-- The value is sealed under the key named, bound to environment and name.
CREATE TABLE secrets (
    id TEXT NOT NULL UNIQUE,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    name TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    key_id TEXT NOT NULL,
    version BIGINT NOT NULL DEFAULT 1,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (environment_id, name)
);
