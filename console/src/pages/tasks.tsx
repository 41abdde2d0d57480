// What can be started: the tasks of the current deployment.
import type { ReactNode } from "react";
import type { Task } from "../api/types.ts";
import { Link } from "../app/router.tsx";
import { useScoped } from "../app/scope.tsx";
import { List } from "../ui/list.tsx";
import { Empty, PageHead } from "../ui/parts.tsx";
import { durationText } from "../ui/time.tsx";

export default function Tasks(): ReactNode {
  const query = useScoped<{ tasks: Task[] }>("/tasks");
  return (
    <>
      <PageHead title="Tasks" lead="Of the deployment that is current" />
      <List
        query={query}
        items={query.data?.tasks}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No task is deployed here" command="helmr deploy">
            Make a project with <code>helmr init</code>, then:
          </Empty>
        }
        columns={[
          {
            head: "Task",
            cell: (task) => <Link href={`/tasks/${encodeURIComponent(task.task_id)}`}>{task.task_id}</Link>,
          },
          { head: "File", cell: (task) => <code>{task.file_path}</code> },
          { head: "Sandbox", cell: (task) => task.sandbox_id },
          { head: "Queue", cell: (task) => task.queue },
          { head: "Most time", cell: (task) => durationText(task.max_duration_seconds * 1000) },
          {
            head: "Secrets",
            cell: (task) =>
              task.secrets.map(({ name }) => name).join(", ") || <span className="dim">–</span>,
          },
          {
            head: "Runs",
            cell: (task) => (
              <Link href={`/runs?status=all&task=${encodeURIComponent(task.task_id)}`}>show</Link>
            ),
          },
        ]}
      />
    </>
  );
}
