// One deployment: its build as it happens, and its promotion.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client, send } from "../api/client.ts";
import type { Deployment, DeploymentEvent } from "../api/types.ts";
import { Link, useParam } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { LogLines } from "../ui/log_lines.ts";
import { LogView } from "../ui/log_view.tsx";
import { Confirm, Facts, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { Time, durationText } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

interface Step {
  key: string;
  phase: string;
  name: string;
  status: string;
  isCached: boolean;
  ms: number | undefined;
}

function takeStep(steps: Step[], { attributes }: DeploymentEvent): Step[] {
  const text = (name: string): string => String(attributes[name] ?? "");
  const key = `${text("phase")} ${text("name")} ${text("index")}`;
  const ms = attributes["ms"];
  const step: Step = {
    key,
    phase: text("phase"),
    name: text("name"),
    status: text("status"),
    isCached: attributes["cached"] === true,
    ms: typeof ms === "number" ? ms : undefined,
  };
  const at = steps.findIndex((one) => one.key === key);
  return at < 0 ? [...steps, step] : steps.with(at, step);
}

function useBuild(id: string): { steps: Step[]; log: LogLines; events: number } {
  const {
    place: { projectId, environmentId },
  } = useScope();
  const [steps, setSteps] = useState<Step[]>([]);
  const [log, setLog] = useState(() => new LogLines());
  const [events, setEvents] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const lines = new LogLines();
    const encoder = new TextEncoder();
    setLog(lines);
    setSteps([]);
    const read = async (): Promise<void> => {
      for await (const { data } of client.events<DeploymentEvent>(`/deployments/${id}/events`, {
        projectId,
        environmentId,
        signal: stop.signal,
      })) {
        setEvents((n) => n + 1);
        if (data.kind === "deployment.build.step") setSteps((before) => takeStep(before, data));
        if (data.kind === "deployment.build.log")
          lines.add(
            data.attributes["stream"] === "stderr" ? "stderr" : "stdout",
            encoder.encode(String(data.attributes["text"] ?? "")),
          );
      }
      lines.end();
    };
    read().catch(() => undefined);
    return () => stop.abort();
  }, [id, projectId, environmentId]);
  return { steps, log, events };
}

function Steps({ steps }: { steps: Step[] }): ReactNode {
  return (
    <ol className="steps">
      {steps.map((step) => (
        <li key={step.key}>
          <Status
            value={
              step.status === "done"
                ? "succeeded"
                : step.status === "started"
                  ? "running"
                  : step.status
            }
          />
          <b>{step.phase}</b> <code>{step.name}</code>
          {step.isCached && <span className="tag">cached</span>}
          {step.ms !== undefined && <span className="dim">{durationText(step.ms)}</span>}
        </li>
      ))}
    </ol>
  );
}

function Actions({ one, done }: { one: Deployment; done(): void }): ReactNode {
  const { place, may } = useScope();
  const promote = useSubmit(async () => {
    await send(
      "POST",
      `/deployments/${one.id}/promote`,
      { reason: "promoted in the console" },
      place,
    );
    done();
  });
  if (!may("tasks:deploy")) return null;
  return (
    <>
      {one.status === "deployed" && !one.is_current && (
        <button type="button" disabled={promote.isBusy} onClick={() => promote.submit()}>
          Promote
        </button>
      )}
      {(one.status === "queued" || one.status === "building") && (
        <Confirm
          label="Cancel the build"
          question="It cannot be taken up again."
          act={() => send("POST", `/deployments/${one.id}/cancel`, {}, place)}
        />
      )}
      {promote.error && <Trouble error={promote.error} />}
    </>
  );
}

export default function DeploymentPage(): ReactNode {
  const id = useParam("deployment");
  const { data: one, error, refresh } = useScoped<Deployment>(`/deployments/${id}`);
  const { steps, log, events } = useBuild(id);
  useEffect(refresh, [events]);
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!one) return null;
  return (
    <>
      <PageHead
        title={
          <>
            {one.version} <Status value={one.status} />
            {one.is_current && <span className="tag">current</span>}
          </>
        }
      >
        <Actions one={one} done={refresh} />
      </PageHead>
      {one.error && (
        <div className="trouble fault">
          <strong>{one.error.message}</strong>
          <span className="dim">
            {one.error.layer} · {one.error.failure_kind}
          </span>
        </div>
      )}
      <Facts
        rows={[
          ["Created", <Time at={one.created_at} />],
          ["Deployed", one.deployed_at && <Time at={one.deployed_at} />],
          ["Promoted", one.promoted_at && <Time at={one.promoted_at} />],
          ["Content", <code>{one.content_hash.slice(0, 19)}</code>],
          [
            "Tasks",
            one.tasks.map(({ task_id }) => (
              <Link key={task_id} href={`/tasks/${task_id}`}>
                {task_id}{" "}
              </Link>
            )),
          ],
        ]}
      />
      {steps.length > 0 && (
        <Section title="Steps">
          <Steps steps={steps} />
        </Section>
      )}
      <Section title="Output of the build">
        <LogView log={log} name={`${one.version}.log`} isLive={one.status === "building"} />
      </Section>
    </>
  );
}
