-- name: object_insert (id, domain, class, key_id, digest, bytes, stored_bytes, now)
-- Changes nothing when the object is there as another class: its file is of another form.
INSERT INTO objects (id, domain, class, state, key_id, digest, size_bytes, stored_bytes,
    created_ms, ready_ms)
VALUES ($1, $2, $3, 'ready', $4, $5, $6, $7, $8, $8)
ON CONFLICT (id) DO UPDATE SET state = 'ready', domain = excluded.domain, class = excluded.class,
    key_id = excluded.key_id, digest = excluded.digest, size_bytes = excluded.size_bytes,
    stored_bytes = excluded.stored_bytes, ready_ms = excluded.ready_ms, dead_ms = NULL,
    damaged_ms = NULL
WHERE objects.key_id IS NULL
    OR (objects.class = excluded.class AND objects.domain = excluded.domain);

-- name: object_refer (id, now) -> size_bytes
-- Locks a live object and makes it young, so that the collector, which compares ready_ms, leaves it.
UPDATE objects SET ready_ms = $2
WHERE id = $1 AND state = 'ready' AND dead_ms IS NULL AND damaged_ms IS NULL
RETURNING size_bytes;

-- name: object_find (id) -> class, key_id, size_bytes, damaged_ms
SELECT class, key_id, size_bytes, damaged_ms FROM objects
WHERE id = $1 AND state = 'ready' AND dead_ms IS NULL;

-- name: object_mark (id, damaged)
UPDATE objects SET damaged_ms = $2 WHERE id = $1;

-- name: objects_unneeded (ready_before, used_after, failed_after, limit) -> id, ready_ms
SELECT o.id, o.ready_ms FROM objects o
WHERE o.dead_ms IS NULL AND o.state = 'ready' AND o.ready_ms < $1
    AND NOT EXISTS (SELECT 1 FROM deployments d WHERE d.source_object_id = o.id
        AND (d.state <> 'failed' OR d.failed_ms > $3))
    AND NOT EXISTS (SELECT 1 FROM deployments d WHERE d.bundle_object_id = o.id)
    AND NOT EXISTS (SELECT 1 FROM image_objects i JOIN deployments d ON d.id = i.deployment_id
        WHERE i.object_id = o.id AND d.state <> 'failed')
    AND NOT EXISTS (SELECT 1 FROM image_steps s WHERE s.object_id = o.id AND s.used_ms > $2)
    AND NOT EXISTS (SELECT 1 FROM object_refs r WHERE r.object_id = o.id)
ORDER BY o.ready_ms LIMIT $4;

-- name: object_kill (id, ready, now)
-- Whoever referred to it since it was found has made it younger.
UPDATE objects SET dead_ms = $3 WHERE id = $1 AND ready_ms = $2 AND dead_ms IS NULL;

-- name: objects_dead (before, limit) -> id
SELECT id FROM objects WHERE dead_ms <= $1 ORDER BY dead_ms LIMIT $2;

-- name: object_bury (id, before)
DELETE FROM objects WHERE id = $1 AND dead_ms <= $2;

-- name: objects_to_reseal (key_id, after, limit) -> id, key_id, size_bytes
SELECT id, key_id, size_bytes FROM objects
WHERE domain = 'store' AND class = 'blob' AND (key_id IS NULL OR key_id <> $1)
    AND state = 'ready' AND dead_ms IS NULL AND damaged_ms IS NULL AND id > $2
ORDER BY id LIMIT $3;

-- name: object_resealed (id, old_key_id, key_id, stored_bytes)
UPDATE objects SET key_id = $3, stored_bytes = $4
WHERE id = $1 AND key_id IS NOT DISTINCT FROM $2 AND dead_ms IS NULL;

-- name: object_classified (id, domain, class, key_id, stored_bytes)
-- A pack or a manifest that was stored before classes were told apart.
UPDATE objects SET domain = $2, class = $3, key_id = $4, digest = id, stored_bytes = $5
WHERE id = $1 AND key_id IS NULL AND class = 'blob';

-- name: object_is_known (id) -> id
SELECT id FROM objects WHERE id = $1;

-- name: object_insert_dead (id, dead)
-- For a file that nobody knows of: whoever stores the object at this moment comes first, or waits.
INSERT INTO objects (id, domain, class, state, created_ms, ready_ms, dead_ms)
VALUES ($1, 'store', 'blob', 'ready', $2, $2, $2)
ON CONFLICT (id) DO NOTHING;

-- name: objects_after (after, limit) -> id, domain, class, key_id, size_bytes
-- Page by page through all that can be referred to.
SELECT id, domain, class, key_id, size_bytes FROM objects
WHERE id > $1 AND state = 'ready' AND dead_ms IS NULL ORDER BY id LIMIT $2;

-- name: object_again (id) -> id, domain, class, key_id, size_bytes
SELECT id, domain, class, key_id, size_bytes FROM objects
WHERE id = $1 AND state = 'ready' AND dead_ms IS NULL;

-- name: key_ids_of_objects () -> kind, key_id, n
-- Of the store's own keys; those of checkpoints are the workers'.
SELECT class || 's', coalesce(key_id, ''), count(*) FROM objects
WHERE domain = 'store' AND dead_ms IS NULL GROUP BY class, key_id ORDER BY class, key_id;
