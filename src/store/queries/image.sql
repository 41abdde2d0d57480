-- name: image_object_insert (deployment, object)
INSERT INTO image_objects (deployment_id, object_id) VALUES ($1, $2)
ON CONFLICT (deployment_id, object_id) DO NOTHING;

-- name: image_step_find (project, digest) -> object_id, diff_id, size_bytes, is_live
SELECT s.object_id, s.diff_id, s.size_bytes,
    CASE WHEN s.object_id IS NULL OR (o.state = 'ready' AND o.dead_ms IS NULL
        AND o.damaged_ms IS NULL) THEN 1 ELSE 0 END
FROM image_steps s LEFT JOIN objects o ON o.id = s.object_id
WHERE s.project_id = $1 AND s.step_digest = $2;

-- name: image_step_use (project, digest, now)
UPDATE image_steps SET used_ms = $3 WHERE project_id = $1 AND step_digest = $2;

-- name: image_step_put (project, digest, object, diff_id, bytes, now)
INSERT INTO image_steps (project_id, step_digest, object_id, diff_id, size_bytes, created_ms,
    used_ms)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (project_id, step_digest) DO UPDATE SET object_id = excluded.object_id,
    diff_id = excluded.diff_id, size_bytes = excluded.size_bytes, used_ms = excluded.used_ms;

-- name: image_step_claim (project, digest, lease, now)
-- Changes nothing while the claim of another live lease stands.
INSERT INTO image_claims (project_id, step_digest, lease_id, created_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (project_id, step_digest) DO UPDATE SET lease_id = excluded.lease_id,
    created_ms = excluded.created_ms
WHERE image_claims.lease_id = excluded.lease_id
    OR NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = image_claims.lease_id AND l.live = 1);

-- name: image_step_unclaim (project, digest)
DELETE FROM image_claims WHERE project_id = $1 AND step_digest = $2;

-- name: environment_project (environment) -> project_id
SELECT project_id FROM environments WHERE id = $1;

-- name: image_is_needed (object, deployed_after) -> deployment_id
-- By what may be run without asking for it by name, was deployed lately, or is run now.
SELECT i.deployment_id FROM image_objects i
JOIN deployments d ON d.id = i.deployment_id
JOIN environments e ON e.id = d.environment_id
WHERE i.object_id = $1 AND (e.current_deployment_id = d.id OR d.deployed_ms > $2
    OR EXISTS (SELECT 1 FROM runs r WHERE r.environment_id = e.id AND r.finished_ms IS NULL
        AND r.deployment_id = d.id))
LIMIT 1;

-- name: image_steps_forget (used_before)
DELETE FROM image_steps WHERE used_ms < $1;

-- name: image_claims_forget ()
DELETE FROM image_claims
WHERE NOT EXISTS (SELECT 1 FROM leases l WHERE l.id = image_claims.lease_id AND l.live = 1);
