// When tasks start by themselves; those of a deployment are changed there, the others here.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Schedule, Task } from "../api/types.ts";
import { Link } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { List } from "../ui/list.tsx";
import { Confirm, Empty, Field, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

function Create({ done }: { done(): void }): ReactNode {
  const { place } = useScope();
  const tasks = useScoped<{ tasks: Task[] }>("/tasks");
  const [key, setKey] = useState("");
  const [task, setTask] = useState("");
  const [cron, setCron] = useState("0 9 * * 1-5");
  const [timezone, setTimezone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("POST", "/schedules", { deduplication_key: key, task, cron, timezone }, place);
    setKey("");
    done();
  });
  return (
    <form onSubmit={submit} className="narrow">
      <Field label="Task">
        {(id) => (
          <select id={id} required value={task} onChange={(event) => setTask(event.target.value)}>
            <option value="">choose…</option>
            {tasks.data?.tasks.map(({ task_id }) => (
              <option key={task_id}>{task_id}</option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Key" hint="the same key changes the same schedule">
        {(id) => (
          <input id={id} required value={key} onChange={(event) => setKey(event.target.value)} />
        )}
      </Field>
      <Field label="Cron" hint="minute hour day month weekday">
        {(id) => (
          <input id={id} required value={cron} onChange={(event) => setCron(event.target.value)} />
        )}
      </Field>
      <Field label="Time zone">
        {(id) => (
          <input
            id={id}
            required
            value={timezone}
            onChange={(event) => setTimezone(event.target.value)}
          />
        )}
      </Field>
      <button disabled={isBusy}>Create</button>
      {error && <Trouble error={error} />}
    </form>
  );
}

function Actions({ one, done }: { one: Schedule; done(): void }): ReactNode {
  const { place } = useScope();
  const turn = useSubmit(async () => {
    await send(
      "POST",
      `/schedules/${one.id}/${one.status === "active" ? "deactivate" : "activate"}`,
      {},
      place,
    );
    done();
  });
  return (
    <span className="confirm">
      <button type="button" className="quiet" disabled={turn.isBusy} onClick={() => turn.submit()}>
        {one.status === "active" ? "Deactivate" : "Activate"}
      </button>
      {one.type === "imperative" && (
        <Confirm
          isPlain
          label="Delete"
          question="Gone for good."
          act={async () => {
            await send("DELETE", `/schedules/${one.id}`, undefined, place);
            done();
          }}
        />
      )}
      {turn.error && <Trouble error={turn.error} />}
    </span>
  );
}

export default function Schedules(): ReactNode {
  const { may } = useScope();
  const query = useScoped<{ schedules: Schedule[] }>("/schedules", { limit: 200 });
  return (
    <>
      <PageHead title="Schedules" />
      <List
        query={query}
        items={query.data?.schedules}
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
          { head: "Key", cell: (one) => one.deduplication_key },
          { head: "Cron", cell: (one) => <code>{one.cron}</code> },
          { head: "Time zone", cell: (one) => one.timezone },
          { head: "Next", cell: (one) => <Time at={one.next_fire_at} /> },
          {
            head: "Last",
            cell: (one) =>
              one.last_error ? (
                <span title={one.last_error} className="soon">
                  failed
                </span>
              ) : (
                <Time at={one.last_fire_at} />
              ),
          },
          {
            head: "Actions",
            cell: (one) => (may("runs:create") ? <Actions one={one} done={query.refresh} /> : null),
          },
        ]}
      />
      {may("runs:create") && (
        <Section title="New schedule">
          <Create done={query.refresh} />
        </Section>
      )}
    </>
  );
}
