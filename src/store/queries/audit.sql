-- name: audit_head_insert (chain, empty)
INSERT INTO audit_head (id, chain_id, sequence, at_ms, key_id, mac, seal)
VALUES (1, $1, 0, 0, '', $2, $2)
ON CONFLICT (id) DO NOTHING;

-- name: audit_head_take (now) -> chain_id, sequence, at_ms, mac
-- Times never run backwards in the log. The mac is still that of the entry before.
UPDATE audit_head SET sequence = sequence + 1,
    at_ms = CASE WHEN at_ms < CAST($1 AS BIGINT) THEN CAST($1 AS BIGINT) ELSE at_ms END
WHERE id = 1
RETURNING chain_id, sequence, at_ms, mac;

-- name: audit_head_set (key_id, mac, seal)
UPDATE audit_head SET key_id = $1, mac = $2, seal = $3 WHERE id = 1;

-- name: audit_head_get () -> chain_id, sequence, at_ms, key_id, mac, seal
SELECT chain_id, sequence, at_ms, key_id, mac, seal FROM audit_head WHERE id = 1;

-- name: audit_append (sequence, at, actor_type, actor_id, actor_name, action, project, environment, subject, request, outcome, key_id, mac)
INSERT INTO audit_entries (sequence, at_ms, actor_type, actor_id, actor_name, action, project_id,
    environment_id, subject, request_id, outcome, key_id, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: audit_mac_get (sequence) -> mac
SELECT mac FROM audit_entries WHERE sequence = $1;

-- name: audit_list (before, actor, action, from, to, limit) -> sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id, subject, request_id, outcome, key_id, mac
SELECT sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id,
    subject, request_id, outcome, key_id, mac
FROM audit_entries
WHERE sequence < $1
    AND (CAST($2 AS TEXT) = '' OR actor_id = CAST($2 AS TEXT) OR actor_name = CAST($2 AS TEXT))
    AND (CAST($3 AS TEXT) = '' OR action = CAST($3 AS TEXT)) AND at_ms >= $4 AND at_ms < $5
ORDER BY sequence DESC LIMIT $6;

-- name: audit_list_by_actor (before, actor, action, from, to, limit) -> sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id, subject, request_id, outcome, key_id, mac
SELECT sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id,
    subject, request_id, outcome, key_id, mac
FROM audit_entries
WHERE sequence < $1
    AND (actor_id = CAST($2 AS TEXT) OR actor_name = CAST($2 AS TEXT))
    AND (CAST($3 AS TEXT) = '' OR action = CAST($3 AS TEXT)) AND at_ms >= $4 AND at_ms < $5
ORDER BY sequence DESC LIMIT $6;

-- name: audit_list_by_action (before, actor, action, from, to, limit) -> sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id, subject, request_id, outcome, key_id, mac
SELECT sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id,
    subject, request_id, outcome, key_id, mac
FROM audit_entries
WHERE sequence < $1
    AND (CAST($2 AS TEXT) = '' OR actor_id = CAST($2 AS TEXT) OR actor_name = CAST($2 AS TEXT))
    AND action = CAST($3 AS TEXT) AND at_ms >= $4 AND at_ms < $5
ORDER BY sequence DESC LIMIT $6;

-- name: audit_read (after, actor, action, from, to, limit) -> sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id, subject, request_id, outcome, key_id, mac
SELECT sequence, at_ms, actor_type, actor_id, actor_name, action, project_id, environment_id,
    subject, request_id, outcome, key_id, mac
FROM audit_entries
WHERE sequence > $1
    AND (CAST($2 AS TEXT) = '' OR actor_id = CAST($2 AS TEXT) OR actor_name = CAST($2 AS TEXT))
    AND (CAST($3 AS TEXT) = '' OR action = CAST($3 AS TEXT)) AND at_ms >= $4 AND at_ms < $5
ORDER BY sequence LIMIT $6;

-- name: setting_list () -> name, digest
SELECT name, digest FROM settings ORDER BY name;

-- name: setting_put (name, digest)
INSERT INTO settings (name, digest) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET digest = excluded.digest;
