-- name: worker_group_upsert (id, organization, name, now)
INSERT INTO worker_groups (id, organization_id, name, state, created_ms)
VALUES ($1, $2, $3, 'active', $4)
ON CONFLICT (organization_id, name) DO NOTHING;

-- name: worker_group_find (organization, name) -> id
SELECT id FROM worker_groups WHERE organization_id = $1 AND name = $2;

-- name: project_insert (id, organization, slug, name, is_default, now)
INSERT INTO projects (id, organization_id, slug, name, is_default, created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (organization_id, slug) DO NOTHING;

-- name: environment_insert (id, project, slug, name, color, is_default, group, now)
INSERT INTO environments (id, project_id, slug, name, color_hex, is_default, group_id,
    created_ms, updated_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
ON CONFLICT (project_id, slug) DO NOTHING;

-- name: environment_default (organization) -> id, slug, project_id, project_slug
SELECT e.id, e.slug, p.id, p.slug
FROM projects p JOIN environments e ON e.project_id = p.id AND e.is_default = 1
WHERE p.organization_id = $1 AND p.is_default = 1 LIMIT 1;

-- name: environment_find (organization, project, environment) -> id, slug, project_id, project_slug
SELECT e.id, e.slug, p.id, p.slug
FROM projects p JOIN environments e ON e.project_id = p.id
WHERE p.organization_id = $1 AND (p.id = $2 OR p.slug = $2) AND (e.id = $3 OR e.slug = $3)
LIMIT 1;

-- name: project_list (organization, before, limit) -> id, slug, name, is_default, created_ms, updated_ms
SELECT id, slug, name, is_default, created_ms, updated_ms FROM projects
WHERE organization_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3;

-- name: project_find (organization, project) -> id, slug, name, is_default, created_ms, updated_ms
SELECT id, slug, name, is_default, created_ms, updated_ms FROM projects
WHERE organization_id = $1 AND (id = $2 OR slug = $2) LIMIT 1;

-- name: environment_list (project) -> id, project_id, slug, name, color_hex, is_default, group_name, min_grade, workspaces_max, storage_bytes_max, created_ms, updated_ms
SELECT e.id, e.project_id, e.slug, e.name, e.color_hex, e.is_default, g.name, e.min_grade,
    e.workspaces_max, e.storage_bytes_max, e.created_ms, e.updated_ms
FROM environments e JOIN worker_groups g ON g.id = e.group_id
WHERE e.project_id = $1 ORDER BY e.id;

-- name: project_change (organization, id, slug, name, now)
-- Without a slug or a name the former stays.
UPDATE projects SET slug = coalesce(CAST($3 AS TEXT), slug), name = coalesce(CAST($4 AS TEXT), name),
    updated_ms = $5
WHERE organization_id = $1 AND id = $2;

-- name: project_undefault (organization)
UPDATE projects SET is_default = 0 WHERE organization_id = $1 AND is_default = 1;

-- name: project_set_default (organization, id)
UPDATE projects SET is_default = 1 WHERE organization_id = $1 AND id = $2;

-- name: environment_change (project, id, slug, name, color, group, min_grade, sets_limits, workspaces, storage, now)
-- What is null stays as it was, but for the limits, which are set together.
UPDATE environments SET slug = coalesce(CAST($3 AS TEXT), slug),
    name = coalesce(CAST($4 AS TEXT), name), color_hex = coalesce(CAST($5 AS TEXT), color_hex),
    group_id = coalesce(CAST($6 AS TEXT), group_id),
    min_grade = coalesce(CAST($7 AS BIGINT), min_grade),
    workspaces_max = CASE WHEN CAST($8 AS BIGINT) = 1 THEN CAST($9 AS BIGINT)
        ELSE workspaces_max END,
    storage_bytes_max = CASE WHEN CAST($8 AS BIGINT) = 1 THEN CAST($10 AS BIGINT)
        ELSE storage_bytes_max END,
    updated_ms = $11
WHERE project_id = $1 AND id = $2;

-- name: environment_retire (environment)
-- Changing what a foreign key could name waits for everyone who is about to refer to the row, and
-- makes later ones wait for the end of the deletion.
UPDATE environments SET slug = id WHERE id = $1;

-- name: environment_live (environment) -> runs, builds, workspaces
SELECT
    (SELECT count(*) FROM runs WHERE environment_id = $1 AND finished_ms IS NULL),
    (SELECT count(*) FROM deployments WHERE environment_id = $1
        AND state IN ('queued', 'building')),
    (SELECT count(*) FROM workspaces WHERE environment_id = $1 AND state <> 'deleted');

-- name: purge_operations (environment)
DELETE FROM operations WHERE environment_id = $1;

-- name: purge_log_chunks (environment)
DELETE FROM log_chunks WHERE run_id IN (SELECT id FROM runs WHERE environment_id = $1);

-- name: purge_run_events (environment)
DELETE FROM run_events WHERE run_id IN (SELECT id FROM runs WHERE environment_id = $1);

-- name: purge_attempts (environment)
DELETE FROM attempts WHERE run_id IN (SELECT id FROM runs WHERE environment_id = $1);

-- name: purge_run_values (environment)
DELETE FROM run_values WHERE run_id IN (SELECT id FROM runs WHERE environment_id = $1);

-- name: purge_ready (environment)
DELETE FROM ready WHERE lane_id IN (SELECT id FROM lanes WHERE environment_id = $1);

-- name: purge_image_claims (environment)
DELETE FROM image_claims WHERE lease_id IN (SELECT id FROM leases WHERE environment_id = $1);

-- name: purge_lease_operations (environment)
DELETE FROM lease_operations WHERE lease_id IN (SELECT id FROM leases WHERE environment_id = $1);

-- name: purge_leases (environment)
DELETE FROM leases WHERE environment_id = $1;

-- name: purge_idempotency (environment)
DELETE FROM idempotency WHERE environment_id = $1;

-- name: purge_waits (environment)
DELETE FROM waits WHERE environment_id = $1;

-- name: purge_public_access_tokens (environment)
DELETE FROM public_access_tokens WHERE environment_id = $1;

-- name: purge_tokens (environment)
DELETE FROM tokens WHERE environment_id = $1;

-- name: purge_runs (environment)
DELETE FROM runs WHERE environment_id = $1;

-- name: purge_sessions (environment)
DELETE FROM sessions WHERE environment_id = $1;

-- name: purge_workspaces (environment)
DELETE FROM workspaces WHERE environment_id = $1;

-- name: purge_heads (environment)
DELETE FROM heads WHERE lane_id IN (SELECT id FROM lanes WHERE environment_id = $1);

-- name: purge_shapes (environment)
DELETE FROM shapes WHERE environment_id = $1;

-- name: purge_lanes (environment)
DELETE FROM lanes WHERE environment_id = $1;

-- name: purge_image_objects (environment)
DELETE FROM image_objects WHERE deployment_id IN (SELECT id FROM deployments WHERE environment_id = $1);

-- name: purge_deployment_queues (environment)
DELETE FROM deployment_queues WHERE deployment_id IN (SELECT id FROM deployments WHERE environment_id = $1);

-- name: purge_deployment_tasks (environment)
DELETE FROM deployment_tasks WHERE environment_id = $1;

-- name: purge_deployment_sandboxes (environment)
DELETE FROM deployment_sandboxes WHERE environment_id = $1;

-- name: purge_deployment_events (environment)
DELETE FROM deployment_events WHERE deployment_id IN (SELECT id FROM deployments WHERE environment_id = $1);

-- name: purge_deployments (environment)
DELETE FROM deployments WHERE environment_id = $1;

-- name: purge_secrets (environment)
DELETE FROM secrets WHERE environment_id = $1;

-- name: purge_api_keys (environment)
DELETE FROM api_keys WHERE environment_id = $1;

-- name: environment_delete_row (environment)
DELETE FROM environments WHERE id = $1;

-- name: purge_image_steps (project)
DELETE FROM image_steps WHERE project_id = $1;

-- name: project_delete_row (project)
DELETE FROM projects WHERE id = $1;
