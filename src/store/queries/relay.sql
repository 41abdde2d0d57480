-- name: workspace_port (environment, workspace) -> network, lease_id, worker_id
-- What the sandbox of a workspace lets in, and who has it mounted.
SELECT s.network, m.lease_id, m.worker_id
FROM workspaces w
JOIN deployment_sandboxes s ON s.deployment_id = w.deployment_id AND s.sandbox_id = w.sandbox_id
LEFT JOIN mounts m ON m.workspace_id = w.id AND m.state = 'mounted'
WHERE w.environment_id = $1 AND w.id = $2;
