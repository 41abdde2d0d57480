// What one can do with a run.
import type { ReactNode } from "react";
import { send } from "../../api/client.ts";
import type { Run } from "../../api/types.ts";
import { navigate } from "../../app/router.tsx";
import { useScope } from "../../app/scope.tsx";
import { Confirm, useSubmit } from "../../ui/parts.tsx";
import { Trouble } from "../../ui/trouble.tsx";

/** The program as it stood at a wait, once more: in a session and a workspace of its own. */
export function Fork({ runId, waitId }: { runId: string; waitId: string }): ReactNode {
  const { place } = useScope();
  const { error, isBusy, submit } = useSubmit(async () => {
    const { run } = await send<{ run: Run }>(
      "POST",
      `/runs/${runId}/fork`,
      { wait_id: waitId },
      place,
    );
    navigate(`/runs/${run.id}`);
  });
  return (
    <>
      <button type="button" className="quiet" disabled={isBusy} onClick={() => submit()}>
        Fork here
      </button>
      {error && <Trouble error={error} />}
    </>
  );
}

function Again({ run }: { run: Run }): ReactNode {
  const { place } = useScope();
  const { error, isBusy, submit } = useSubmit(async () => {
    const made = await send<Run>(
      "POST",
      "/runs",
      { task_id: run.task_id, ...(run.payload !== null && { payload: run.payload }) },
      place,
    );
    navigate(`/runs/${made.id}`);
  });
  return (
    <>
      <button
        type="button"
        className="quiet"
        title="The same task with the same payload"
        disabled={isBusy}
        onClick={() => submit()}
      >
        Run again
      </button>
      {error && <Trouble error={error} />}
    </>
  );
}

export function Actions({ run }: { run: Run }): ReactNode {
  const { place, may } = useScope();
  return (
    <>
      {may("runs:create") && <Again run={run} />}
      {may("runs:create") && run.pending_wait && (
        <Fork runId={run.id} waitId={run.pending_wait.id} />
      )}
      {may("runs:manage") && !run.finished_at && (
        <Confirm
          label="Cancel the run"
          question="It is stopped where it stands."
          act={() =>
            send("POST", `/runs/${run.id}/cancel`, { reason: "cancelled in the console" }, place)
          }
        />
      )}
    </>
  );
}
