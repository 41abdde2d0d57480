// One task, and the form that starts it.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Run, Task } from "../api/types.ts";
import { navigate, useParam } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Facts, Field, PageHead, Section, useSubmit } from "../ui/parts.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { durationText } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function Start({ task }: { task: Task }): ReactNode {
  const { place } = useScope();
  const [payload, setPayload] = useState("{}");
  const [tags, setTags] = useState("");
  const problem = problemOf(payload);
  const { error, isBusy, submit } = useSubmit(async () => {
    const names = tags
      .split(",")
      .map((tag) => tag.trim())
      .filter((tag) => tag !== "");
    const body = {
      task_id: task.task_id,
      ...(task.accepts_payload && { payload: JSON.parse(payload) as unknown }),
      ...(names.length > 0 && { options: { tags: names } }),
    };
    const run = await send<Run>("POST", "/runs", body, place);
    navigate(`/runs/${run.id}`);
  });
  return (
    <form onSubmit={submit} className="narrow">
      {task.accepts_payload ? (
        <Field label="Payload" hint={problem ?? "JSON; the task checks it against its schema"}>
          {(id) => (
            <textarea
              id={id}
              rows={8}
              value={payload}
              aria-invalid={problem !== undefined}
              spellCheck={false}
              onChange={(event) => setPayload(event.target.value)}
            />
          )}
        </Field>
      ) : (
        <p className="dim">It takes no payload.</p>
      )}
      <Field label="Tags" hint="separated by commas">
        {(id) => <input id={id} value={tags} onChange={(event) => setTags(event.target.value)} />}
      </Field>
      <button disabled={isBusy || (task.accepts_payload && problem !== undefined)}>
        Start a run
      </button>
      {error && <Trouble error={error} />}
    </form>
  );
}

export default function TaskPage(): ReactNode {
  const id = useParam("task");
  const { may } = useScope();
  const { data: task, error, refresh } = useScoped<Task>(`/tasks/${encodeURIComponent(id)}`);
  const runs = useScoped<{ runs: Run[] }>("/runs", { status: "all", task_id: id, limit: 10 });
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!task) return null;
  return (
    <>
      <PageHead
        title={task.task_id}
        lead={
          <code>
            {task.file_path} · {task.export_name}
          </code>
        }
      />
      <Facts
        rows={[
          ["Deployment", task.deployment_version],
          ["Sandbox", task.sandbox_id],
          ["Queue", task.queue],
          ["Most time", durationText(task.max_duration_seconds * 1000)],
          [
            "Secrets",
            task.secrets.map(({ name, placement }) => `${name} (${placement})`).join(", "),
          ],
        ]}
      />
      {may("runs:create") && (
        <Section title="Start">
          <Start task={task} />
        </Section>
      )}
      {runs.data && runs.data.runs.length > 0 && (
        <Section title="Newest runs">
          <RunTable runs={runs.data.runs} />
        </Section>
      )}
    </>
  );
}
