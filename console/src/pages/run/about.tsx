// What a run is and what went wrong with it.
import type { ReactNode } from "react";
import type { Run } from "../../api/types.ts";
import { Link } from "../../app/router.tsx";
import { Copy, Facts, Id } from "../../ui/parts.tsx";
import { Time, durationText } from "../../ui/time.tsx";

/* Where it went wrong, and what to do about it. */
const advice: Record<string, string> = {
  image_preparation: "The image lacks what the task needs: change its steps and deploy again.",
  guest_runtime: "The sandbox could not be made or kept: look at the worker's checks in the settings.",
  task_process: "The task's own code failed.",
  timeout: "It took longer than its maxDuration: raise that, or do less in one run.",
  parked_wait: "What it waited for did not come in time, or it could not be brought back.",
};

export function Fault({ run }: { run: Run }): ReactNode {
  if (!run.error) return null;
  const { layer, failure_kind, message, details } = run.error;
  const stack = details?.["stack"];
  return (
    <div className="trouble fault">
      <strong>{message}</strong>
      <span className="dim">
        {advice[layer] ? `${advice[layer]} ` : ""}
        <code>
          {layer} · {failure_kind}
        </code>
        {run.exit_code !== null && ` · exit code ${run.exit_code}`}
      </span>
      {failure_kind === "payload_invalid" && (
        <Link href={`/tasks/${encodeURIComponent(run.task_id)}?from=${run.id}`}>
          Start again with another payload
        </Link>
      )}
      {typeof stack === "string" && <pre tabIndex={0}>{stack}</pre>}
    </div>
  );
}

export function About({ run }: { run: Run }): ReactNode {
  return (
    <Facts
      rows={[
        [
          "Run",
          <span className="with-copy">
            <Id value={run.id} />
            <Copy text={run.id} />
          </span>,
        ],
        ["Created", <Time at={run.created_at} />],
        ["Task", <Link href={`/tasks/${encodeURIComponent(run.task_id)}`}>{run.task_id}</Link>],
        [
          "Deployment",
          <Link href={`/deployments/${run.deployment_id}`}>{run.deployment_version}</Link>,
        ],
        ["Session", <Id value={run.session_id} href={`/sessions/${run.session_id}`} />],
        ["Workspace", <Id value={run.workspace_id} href={`/workspaces/${run.workspace_id}`} />],
        ["Isolation", run.isolation && `${run.isolation.engine} · ${run.isolation.grade}`],
        ["Active time", durationText(run.active_duration_ms)],
        ["Attempt", run.attempt_number ?? undefined],
        ["Exit code", run.exit_code ?? undefined],
        ["Queue", run.queue],
        ["Queued because", run.queued_reason?.replaceAll("_", " ")],
        ["Secrets", run.secret_names.join(", ")],
        [
          "Tags",
          run.tags.length === 0
            ? undefined
            : run.tags.map((tag) => (
                <span key={tag} className="tag">
                  {tag}
                </span>
              )),
        ],
      ]}
    />
  );
}
