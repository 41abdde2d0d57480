// When tasks start by themselves; those of a deployment are changed there, the others here.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Schedule, Task } from "../api/types.ts";
import { Link } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Asked, fieldOf } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Confirm, Empty, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble, saidBy } from "../ui/trouble.tsx";
import { HelmrApiError } from "@helmr/sdk";

const fieldOfCode: Record<string, string> = { cron_invalid: "cron", timezone_invalid: "timezone" };
const examples = [
  ["Every hour", "0 * * * *"],
  ["Every day at 9", "0 9 * * *"],
  ["Weekdays at 9", "0 9 * * 1-5"],
  ["Mondays at 8", "0 8 * * 1"],
] as const;

const zones = (): string[] => Intl.supportedValuesOf("timeZone");

/** The field that was refused, by its code or by the path in the words. */
function refused(error: Error | undefined): { name: string; message: string } | undefined {
  const field = fieldOf(error);
  if (field) return { name: field.path[0] as string, message: field.message };
  const name = error instanceof HelmrApiError ? fieldOfCode[error.code] : undefined;
  return name === undefined ? undefined : { name, message: saidBy(error as HelmrApiError) };
}

/** What the form does not ask for, and a change would drop. */
const keptOf = ({ external_id, options, secret_bindings }: Schedule): object => ({
  ...(external_id && { external_id }),
  ...(options && { options }),
  ...(secret_bindings && { secret_bindings }),
});

/** Makes one, or changes `of`. */
function Edit({ of, done }: { of?: Schedule | undefined; done(): void }): ReactNode {
  const { place } = useScope();
  const tasks = useScoped<{ tasks: Task[] }>("/tasks");
  const [key, setKey] = useState("");
  const [task, setTask] = useState(of?.task ?? "");
  const [cron, setCron] = useState(of?.cron ?? "0 9 * * 1-5");
  const [timezone, setTimezone] = useState(
    of?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
  );
  const { error, isBusy, submit } = useSubmit(async () => {
    const body = { task, cron, timezone };
    if (of) await send("PUT", `/schedules/${of.id}`, { ...keptOf(of), ...body }, place);
    else await send("POST", "/schedules", { deduplication_key: key, ...body }, place);
    setKey("");
    done();
  });
  const wrong = refused(error);
  const saidOf = (name: string): string | undefined =>
    wrong?.name === name ? wrong.message : undefined;
  const names = tasks.data?.tasks.map(({ task_id }) => task_id) ?? [];
  return (
    <form onSubmit={submit} className="narrow">
      <Asked label="Task" problem={saidOf("task")}>
        {(props) => (
          <select
            {...props}
            required
            value={task}
            onChange={(event) => setTask(event.target.value)}
          >
            <option value="">choose…</option>
            {(task === "" || names.includes(task) ? names : [task, ...names]).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Asked>
      {!of && (
        <Asked
          label="Key"
          hint="a name of yours; the same key changes the same schedule"
          problem={saidOf("deduplication_key")}
        >
          {(props) => (
            <input
              {...props}
              required
              value={key}
              onChange={(event) => setKey(event.target.value)}
            />
          )}
        </Asked>
      )}
      <Asked label="Cron" hint="minute hour day month weekday" problem={saidOf("cron")}>
        {(props) => (
          <input
            {...props}
            required
            className="mono"
            value={cron}
            onChange={(event) => setCron(event.target.value)}
          />
        )}
      </Asked>
      <div className="chips" role="group" aria-label="Usual times">
        {examples.map(([words, value]) => (
          <button
            key={value}
            type="button"
            className="quiet"
            aria-pressed={cron === value}
            onClick={() => setCron(value)}
          >
            {words}
          </button>
        ))}
      </div>
      <Asked label="Time zone" problem={saidOf("timezone")}>
        {(props) => (
          <>
            <input
              {...props}
              required
              list={`${props.id}-zones`}
              value={timezone}
              onChange={(event) => setTimezone(event.target.value)}
            />
            <datalist id={`${props.id}-zones`}>
              {zones().map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
          </>
        )}
      </Asked>
      <span className="confirm">
        <button disabled={isBusy}>{of ? "Save" : "Create"}</button>
        {of && (
          <button type="button" className="quiet" onClick={done}>
            Leave it
          </button>
        )}
      </span>
      {error && !wrong && <Trouble error={error} />}
    </form>
  );
}

function Actions({
  one,
  edit,
  done,
}: {
  one: Schedule;
  edit(): void;
  done(): void;
}): ReactNode {
  const { place } = useScope();
  const turn = useSubmit(async () => {
    const verb = one.status === "active" ? "deactivate" : "activate";
    await send("POST", `/schedules/${one.id}/${verb}`, {}, place);
    done();
  });
  if (one.type === "declarative") return <span className="dim">changed in its source</span>;
  return (
    <span className="confirm">
      <button type="button" className="quiet" onClick={edit}>
        Edit
      </button>
      <button type="button" className="quiet" disabled={turn.isBusy} onClick={() => turn.submit()}>
        {one.status === "active" ? "Deactivate" : "Activate"}
      </button>
      <Confirm
        isPlain
        label="Delete"
        question="Gone for good."
        act={async () => {
          await send("DELETE", `/schedules/${one.id}`, undefined, place);
          done();
        }}
      />
      {turn.error && <Trouble error={turn.error} />}
    </span>
  );
}

function Table({
  schedules,
  query,
  edit,
}: {
  schedules: Schedule[] | undefined;
  query: Parameters<typeof List>[0]["query"];
  edit(one: Schedule): void;
}): ReactNode {
  const { may } = useScope();
  return (
    <List
      query={query}
      items={schedules}
      keyOf={({ id }) => id}
      empty={
        <Empty
          title="Nothing starts by itself here"
          command="helmr schedule create --key daily --task TASK --cron '0 9 * * *'"
        />
      }
      columns={[
        { head: "Status", cell: (one) => <Status value={one.status} /> },
        { head: "Task", cell: (one) => <Link href={`/tasks/${one.task}`}>{one.task}</Link> },
        {
          head: "Key",
          cell: (one) =>
            one.type === "declarative" ? (
              <span className="dim">of the deployment</span>
            ) : (
              one.deduplication_key
            ),
        },
        { head: "Cron", cell: (one) => <code>{one.cron}</code> },
        { head: "Time zone", cell: (one) => one.timezone },
        { head: "Next", cell: (one) => <Time at={one.next_fire_at} /> },
        {
          head: "Last",
          cell: (one) =>
            one.last_error ? (
              <span title={one.last_error} className="soon">
                failed: {one.last_error}
              </span>
            ) : (
              <Time at={one.last_fire_at} />
            ),
        },
        ...(may("runs:create")
          ? [
              {
                head: "Actions",
                cell: (one: Schedule) => (
                  <Actions one={one} edit={() => edit(one)} done={query.refresh} />
                ),
              },
            ]
          : []),
      ]}
    />
  );
}

export default function Schedules(): ReactNode {
  const { may } = useScope();
  const query = useScoped<{ schedules: Schedule[] }>("/schedules", { limit: 200 });
  const [edited, setEdited] = useState<Schedule>();
  return (
    <>
      <PageHead title="Schedules" lead="When tasks start by themselves" />
      <Table schedules={query.data?.schedules} query={query} edit={setEdited} />
      {may("runs:create") && (
        <Section title={edited ? `Change ${edited.deduplication_key}` : "New schedule"}>
          <Edit
            key={edited?.id}
            of={edited}
            done={() => {
              setEdited(undefined);
              query.refresh();
            }}
          />
        </Section>
      )}
    </>
  );
}
