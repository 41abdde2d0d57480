// One task, and the form that starts it.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Run, Schedule, Task } from "../api/types.ts";
import { Link, navigate, useParam, useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Asked, fieldOf, wordsIn } from "../ui/form.tsx";
import { check, initial, kindOf, plain } from "../ui/json_schema.ts";
import type { Problem } from "../ui/json_schema.ts";
import { Facts, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { PayloadForm } from "../ui/payload_form.tsx";
import { RunTable } from "../ui/run_table.tsx";
import { Time, durationText } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

function jsonProblem(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** What the task's own schema said about a payload that it refused. */
function refusalsOf(run: Run | undefined): Problem[] {
  const issues = run?.error?.failure_kind === "payload_invalid" && run.error.details?.["issues"];
  return Array.isArray(issues) ? (issues as Problem[]) : [];
}

const wordsOf = ({ path, message }: Problem): string =>
  path.length > 0 ? `${path.join(".")}: ${message}` : message;

const optionFields = [
  { name: "concurrency_key", label: "Concurrency key", hint: "those with the same share a limit" },
  { name: "priority", label: "Priority", hint: "higher goes first", isNumber: true },
  { name: "ttl", label: "Start within", hint: "such as 10m; else it expires" },
  { name: "max_duration_seconds", label: "Most time, in seconds", isNumber: true },
  { name: "idempotency_key", label: "Idempotency key", hint: "the same key starts one run only" },
] as const;

function Start({ task, from }: { task: Task; from: Run | undefined }): ReactNode {
  const { place } = useScope();
  const schema = task.payload_schema;
  const hasForm = schema !== undefined && kindOf(plain(schema, schema)) === "object";
  const [isRaw, setRaw] = useState(!hasForm);
  const [value, setValue] = useState<unknown>(
    () => from?.payload ?? (schema ? initial(schema, schema) : {}) ?? {},
  );
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [refusals, setRefusals] = useState(() => refusalsOf(from));
  const [isChecked, setChecked] = useState(false);
  const [tags, setTags] = useState("");
  const [options, setOptions] = useState<Record<string, string>>({});
  const problem = isRaw ? jsonProblem(text) : undefined;
  const problems = schema && !isRaw ? check(schema, schema, value) : [];
  const { error, isBusy, submit } = useSubmit(async () => {
    setChecked(true);
    if (problem !== undefined || problems.length > 0) return;
    const words = wordsIn(tags);
    const given = optionFields
      .filter(({ name }) => options[name])
      .map((field) => [
        field.name,
        "isNumber" in field ? Number(options[field.name]) : options[field.name],
      ]);
    const run = await send<Run>(
      "POST",
      "/runs",
      {
        task_id: task.task_id,
        ...(task.accepts_payload && { payload: isRaw ? (JSON.parse(text) as unknown) : value }),
        options: { ...Object.fromEntries(given), ...(words.length > 0 && { tags: words }) },
      },
      place,
    );
    navigate(`/runs/${run.id}`);
  });
  const about = fieldOf(error);
  const saidOf = (name: string): string | undefined =>
    about?.path.at(-1) === name ? about.message : undefined;
  const isElsewhere = !["tags", ...optionFields.map(({ name }) => name)].some(saidOf);
  const shown = [...(isChecked ? problems : []), ...refusals];
  return (
    <form onSubmit={submit} className="narrow" noValidate>
      {hasForm && (
        <div className="switcher" role="group" aria-label="How to give the payload">
          {["Form", "JSON"].map((name, i) => (
            <button
              key={name}
              type="button"
              className="quiet"
              aria-pressed={isRaw === (i === 1)}
              disabled={isRaw && i === 0 && problem !== undefined}
              onClick={() => {
                if (isRaw === (i === 1)) return;
                if (i === 1) setText(JSON.stringify(value, null, 2));
                else setValue(JSON.parse(text));
                setRaw(i === 1);
              }}
            >
              {name}
            </button>
          ))}
        </div>
      )}
      {!task.accepts_payload && <p className="dim">It takes no payload.</p>}
      {refusals.length > 0 && (
        <p className="problem" role="alert">
          The task refused this payload; what it said stands at the fields.
        </p>
      )}
      {task.accepts_payload && isRaw && (
        <Asked
          label="Payload"
          hint="JSON; the task checks it against its schema"
          problem={problem ?? (refusals.map(wordsOf).join("; ") || undefined)}
        >
          {(props) => (
            <textarea
              {...props}
              rows={10}
              value={text}
              spellCheck={false}
              onChange={(event) => {
                setText(event.target.value);
                setRefusals([]);
              }}
            />
          )}
        </Asked>
      )}
      {schema && !isRaw && (
        <PayloadForm
          schema={schema}
          value={value}
          problems={shown}
          change={(next, path) => {
            setValue(next);
            setRefusals(refusals.filter((one) => one.path.join(".") !== path.join(".")));
          }}
        />
      )}
      <Asked label="Tags" hint="separated by commas" problem={saidOf("tags")}>
        {(props) => (
          <input {...props} value={tags} onChange={(event) => setTags(event.target.value)} />
        )}
      </Asked>
      <details className="more">
        <summary>More options</summary>
        {optionFields.map((field) => (
          <Asked
            key={field.name}
            label={field.label}
            hint={"hint" in field ? field.hint : undefined}
            problem={saidOf(field.name)}
          >
            {(props) => (
              <input
                {...props}
                type={"isNumber" in field ? "number" : "text"}
                value={options[field.name] ?? ""}
                onChange={(event) =>
                  setOptions({ ...options, [field.name]: event.target.value })
                }
              />
            )}
          </Asked>
        ))}
      </details>
      <button disabled={isBusy}>Start a run</button>
      {isChecked && problems.length > 0 && (
        <p className="problem" role="alert">
          {problems.length === 1 ? "A field" : `${problems.length} fields`} cannot be sent so.
        </p>
      )}
      {error && isElsewhere && <Trouble error={error} />}
    </form>
  );
}

/* A run whose payload is taken as the first draft is waited for, so that the form begins with it. */
function Draft({ task }: { task: Task }): ReactNode {
  const [from] = useSearch("from", "");
  const run = useScoped<Run>(from === "" ? undefined : `/runs/${from}`);
  if (from !== "" && !run.data && !run.error) return null;
  return <Start key={from} task={task} from={run.data} />;
}

function Planned({ task }: { task: Task }): ReactNode {
  const { data } = useScoped<{ schedules: Schedule[] }>("/schedules", { limit: 200 });
  const mine = data?.schedules.filter((one) => one.task === task.task_id) ?? [];
  if (mine.length === 0) return null;
  return (
    <Section title="Starts by itself" aside={<Link href="/schedules">Schedules</Link>}>
      <ul className="lines">
        {mine.map((one) => (
          <li key={one.id}>
            <Status value={one.status} />
            <code>{one.cron}</code>
            <span className="dim">{one.timezone}</span>
            {one.next_fire_at && (
              <span>
                next <Time at={one.next_fire_at} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

export default function TaskPage(): ReactNode {
  const id = useParam("task");
  const { may } = useScope();
  const { data: task, error, refresh } = useScoped<Task>(`/tasks/${encodeURIComponent(id)}`);
  const runs = useScoped<{ runs: Run[] }>("/runs", { status: "all", task_id: id, limit: 10 });
  useEffect(() => {
    if (task) document.title = `${task.task_id} · Helmr`;
  }, [task]);
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
          [
            "Deployment",
            <Link href={`/deployments/${task.deployment_id}`}>{task.deployment_version}</Link>,
          ],
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
        <Section title="Start a run">
          <Draft task={task} />
        </Section>
      )}
      <Planned task={task} />
      {runs.data && runs.data.runs.length > 0 && (
        <Section title="Newest runs">
          <RunTable runs={runs.data.runs} />
        </Section>
      )}
    </>
  );
}
