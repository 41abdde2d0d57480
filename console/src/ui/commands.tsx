// Commands in a workspace's sandbox: what was run there, its output as it comes, and one more.
import { useEffect, useState } from "react";
import type { ReactNode } from "react";
import type { ExecSnapshot, WorkspaceHandle } from "@helmr/sdk";
import { useQuery } from "../app/query.ts";
import { useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { Asked } from "./form.tsx";
import { List } from "./list.tsx";
import { LogLines } from "./log_lines.ts";
import { LogView } from "./log_view.tsx";
import { Confirm, Empty, Section, Status, useSubmit } from "./parts.tsx";
import { Time } from "./time.tsx";
import { Trouble } from "./trouble.tsx";

const isOver = ({ state }: ExecSnapshot): boolean =>
  state === "exited" || state === "failed" || state === "lost";

function useOutput(workspace: WorkspaceHandle, execId: string): LogLines {
  const [log, setLog] = useState(() => new LogLines());
  useEffect(() => {
    const stop = new AbortController();
    const lines = new LogLines();
    setLog(lines);
    const exec = workspace.execs.open(execId);
    const read = async (stream: "stdout" | "stderr"): Promise<void> => {
      for await (const { data } of exec[stream].stream({ signal: stop.signal }))
        lines.add(stream, data);
    };
    Promise.allSettled([read("stdout"), read("stderr")])
      .then(() => lines.end())
      .catch(() => undefined);
    return () => stop.abort();
  }, [workspace.id, execId]);
  return log;
}

function Output({ workspace, one }: { workspace: WorkspaceHandle; one: ExecSnapshot }): ReactNode {
  const { may } = useScope();
  const log = useOutput(workspace, one.id);
  return (
    <Section
      title={`Output of ${one.command.join(" ")}`}
      aside={
        !isOver(one) &&
        may("workspace-exec:manage") && (
          <Confirm
            isPlain
            label="End it"
            question="It is asked to end."
            act={() => workspace.execs.open(one.id).terminate()}
          />
        )
      }
    >
      {one.error && <p className="problem">{one.error}</p>}
      <LogView log={log} name={`${one.id}.log`} isLive={!isOver(one)} />
    </Section>
  );
}

function RunOne({
  workspace,
  done,
}: {
  workspace: WorkspaceHandle;
  done(id: string): void;
}): ReactNode {
  const [line, setLine] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    const { id } = await workspace.execs.start(["sh", "-c", line], { detached: true });
    setLine("");
    done(id);
  });
  return (
    <form onSubmit={submit} className="command-line">
      <Asked label="Command" hint="a line for sh, in the workspace's folder">
        {(props) => (
          <input
            {...props}
            className="mono"
            required
            spellCheck={false}
            autoComplete="off"
            value={line}
            onChange={(event) => setLine(event.target.value)}
          />
        )}
      </Asked>
      <button disabled={isBusy}>{isBusy ? "Starting…" : "Run"}</button>
      {error && <Trouble error={error} />}
    </form>
  );
}

export function Commands({ workspace }: { workspace: WorkspaceHandle }): ReactNode {
  const { place, may } = useScope();
  const [chosen, setChosen] = useSearch("command", "");
  const query = useQuery(
    `${place.environmentId} workspace ${workspace.id} execs`,
    () => workspace.execs.list({ limit: 50 }),
    2000,
  );
  const shown = query.data?.find(({ id }) => id === chosen);
  return (
    <>
      {may("workspace-exec:create") && (
        <RunOne
          workspace={workspace}
          done={(id) => {
            setChosen(id);
            query.refresh();
          }}
        />
      )}
      {shown && <Output key={shown.id} workspace={workspace} one={shown} />}
      <List
        query={query}
        items={query.data}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="No command was run here"
            command={`helmr workspace exec ${workspace.id} -- ls -la`}
          />
        }
        columns={[
          { head: "State", cell: (one) => <Status value={one.state} /> },
          {
            head: "Command",
            cell: (one) => (
              <button
                type="button"
                className="name"
                aria-pressed={one.id === chosen}
                onClick={() => setChosen(one.id === chosen ? "" : one.id)}
              >
                <code>{one.command.join(" ")}</code>
              </button>
            ),
          },
          { head: "Exit", cell: (one) => one.exitCode ?? one.signal ?? "–" },
          { head: "When", cell: (one) => <Time at={one.createdAt.toISOString()} /> },
        ]}
      />
    </>
  );
}
