-- Schedules: cron expressions that start runs, and each start they made.

-- A declarative one belongs to the source: its key is its task, and promotions write it.
-- next_fire_ms is the slot that comes next, due_ms when it is looked at: the slot with the
-- schedule's own offset, or later when a start failed. A new generation begins whenever the slots
-- are counted anew.
CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    environment_id TEXT NOT NULL REFERENCES environments (id),
    type TEXT NOT NULL CHECK (type IN ('declarative', 'imperative')),
    deduplication_key TEXT NOT NULL,
    task_id TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    external_id TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'inactive', 'errored')),
    last_error TEXT,
    options TEXT NOT NULL DEFAULT '{}',
    secret_bindings TEXT,
    pinned BIGINT NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    generation BIGINT NOT NULL DEFAULT 1,
    next_fire_ms BIGINT,
    due_ms BIGINT,
    failures BIGINT NOT NULL DEFAULT 0,
    last_fire_ms BIGINT,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    UNIQUE (environment_id, type, deduplication_key),
    CHECK ((status = 'active') = (next_fire_ms IS NOT NULL)),
    CHECK ((next_fire_ms IS NULL) = (due_ms IS NULL))
);

CREATE INDEX schedules_environment ON schedules (environment_id, id);
CREATE INDEX schedules_due ON schedules (due_ms) WHERE due_ms IS NOT NULL;
CREATE UNIQUE INDEX schedules_external ON schedules (environment_id, external_id)
    WHERE external_id IS NOT NULL;

-- The fence: a slot of a generation starts one run, whoever gets here first.
CREATE TABLE schedule_fires (
    schedule_id TEXT NOT NULL REFERENCES schedules (id),
    generation BIGINT NOT NULL,
    fire_ms BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, generation, fire_ms)
);

CREATE INDEX schedule_fires_age ON schedule_fires (created_ms);
