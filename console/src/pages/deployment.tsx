// One deployment: its build as it happens, and its promotion.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client, send } from "../api/client.ts";
import type { Deployment, DeploymentEvent, Failure } from "../api/types.ts";
import { Link, useParam } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { LogLines } from "../ui/log_lines.ts";
import { LogView } from "../ui/log_view.tsx";
import { Confirm, Facts, PageHead, Section, Status } from "../ui/parts.tsx";
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

interface Phase {
  name: string;
  steps: Step[];
  status: string;
  ms: number;
}

const wordOf: Record<string, string> = { done: "succeeded", started: "running" };

/** Steps by phase, in the order in which they came. */
function phasesOf(steps: Step[]): Phase[] {
  const phases: Phase[] = [];
  for (const step of steps) {
    const status = wordOf[step.status] ?? step.status;
    let phase = phases.find(({ name }) => name === step.phase);
    if (!phase) phases.push((phase = { name: step.phase, steps: [], status: "succeeded", ms: 0 }));
    phase.steps.push({ ...step, status });
    phase.ms += step.ms ?? 0;
    if (status !== "succeeded" && phase.status !== "failed") phase.status = status;
  }
  return phases;
}

function Steps({ steps, isOver }: { steps: Step[]; isOver: boolean }): ReactNode {
  return (
    <ol className="phases" aria-live="polite">
      {phasesOf(steps).map((phase) => (
        <li key={phase.name}>
          <div className="phase">
            <Status value={isOver && phase.status === "running" ? "stopped" : phase.status} />
            <b>{phase.name}</b>
            {phase.ms > 0 && <span className="dim">{durationText(phase.ms)}</span>}
          </div>
          <ol>
            {phase.steps
              .filter((step) => step.name !== "")
              .map((step) => (
                <li key={step.key} className={`is-${step.status}`}>
                  <code>{step.name}</code>
                  {step.isCached && <span className="tag">cached</span>}
                  {step.ms !== undefined && <span className="dim">{durationText(step.ms)}</span>}
                </li>
              ))}
          </ol>
        </li>
      ))}
    </ol>
  );
}

function Actions({ one, done }: { one: Deployment; done(): void }): ReactNode {
  const { place, may, environment } = useScope();
  if (!may("tasks:deploy")) return null;
  return (
    <>
      {one.status === "deployed" && !one.is_current && (
        <Confirm
          isPlain
          label="Promote"
          question={`New runs of ${environment.name} use it from now on.`}
          act={async () => {
            const reason = { reason: "promoted in the console" };
            await send("POST", `/deployments/${one.id}/promote`, reason, place);
            done();
          }}
        />
      )}
      {(one.status === "queued" || one.status === "building") && (
        <Confirm
          label="Cancel the build"
          question="It cannot be taken up again."
          act={() => send("POST", `/deployments/${one.id}/cancel`, {}, place)}
        />
      )}
    </>
  );
}

/** What is known of the place: file, line and whatever else the builder said. */
function Fault({ error }: { error: Failure }): ReactNode {
  const details = Object.entries(error.details ?? {}).filter(
    ([, value]) => typeof value === "string" || typeof value === "number",
  );
  return (
    <div className="trouble fault" role="alert">
      <strong>{error.message}</strong>
      <span className="dim">
        {[error.layer, error.failure_kind]
          .concat(details.map(([name, value]) => `${name} ${String(value)}`))
          .join(" · ")}
      </span>
    </div>
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
      {one.error && <Fault error={one.error} />}
      <Facts
        rows={[
          ["Created", <Time at={one.created_at} />],
          ["Deployed", one.deployed_at && <Time at={one.deployed_at} />],
          ["Promoted", one.promoted_at && <Time at={one.promoted_at} />],
          ["Content", <code>{one.content_hash.slice(0, 19)}</code>],
          ["Reason", one.promoted_at && one.promotion_reason],
          ["Sent by", one.cli_version && `CLI ${one.cli_version}`],
          ["Sandboxes", one.sandboxes.map(({ sandbox_id }) => sandbox_id).join(", ")],
        ]}
      />
      {one.tasks.length > 0 && (
        <Section title="Tasks">
          <p className="chips">
            {one.tasks.map(({ task_id }) =>
              one.is_current ? (
                <Link key={task_id} className="chip" href={`/tasks/${encodeURIComponent(task_id)}`}>
                  {task_id}
                </Link>
              ) : (
                <span key={task_id} className="chip">
                  {task_id}
                </span>
              ),
            )}
          </p>
        </Section>
      )}
      {steps.length > 0 && (
        <Section title="Steps">
          <Steps steps={steps} isOver={one.status !== "queued" && one.status !== "building"} />
        </Section>
      )}
      {log.lines.length > 0 && (
        <Section title="Output of the build">
          <LogView log={log} name={`${one.version}.log`} isLive={one.status === "building"} />
        </Section>
      )}
    </>
  );
}
