// One workspace: its files, its versions and what they changed, commands and terminals.
import { lazy } from "react";
import type { ReactNode } from "react";
import type { WorkspaceHandle, WorkspaceSnapshot } from "@helmr/sdk";
import { client } from "../api/client.ts";
import { refreshAll, useQuery } from "../app/query.ts";
import { navigate, useParam, useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { DiffView } from "../ui/diff_view.tsx";
import { FileBrowser } from "../ui/file_browser.tsx";
import { List } from "../ui/list.tsx";
import { Confirm, Empty, Facts, Id, PageHead, Status, useSubmit } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

/* The terminal is large, and most people come for the files. */
const Terminals = lazy(() => import("../ui/terminals.tsx"));
const tabs = ["Files", "Versions", "Changes", "Commands", "Terminal"] as const;

function sizeText(bytes: number): string {
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

function Versions({
  workspace,
  current,
}: {
  workspace: WorkspaceHandle;
  current: string | undefined;
}): ReactNode {
  const { may, place } = useScope();
  const query = useQuery(`${place.environmentId} workspace ${workspace.id} versions`, () =>
    workspace.versions.list({ limit: 100 }),
  );
  const restore = async (id: string): Promise<void> => {
    await workspace.versions.restore(id);
    refreshAll(`${place.environmentId} workspace ${workspace.id}`);
  };
  return (
    <List
      query={query}
      items={query.data}
      keyOf={({ id }) => id}
      empty={<Empty title="Nothing was ever written here" />}
      columns={[
        {
          head: "Version",
          cell: (one) => (
            <>
              <Id value={one.id} href={`/workspaces/${workspace.id}?version=${one.id}`} />
              {one.id === current && <span className="tag">current</span>}
            </>
          ),
        },
        { head: "Kind", cell: (one) => one.kind },
        { head: "Files", cell: (one) => one.entries },
        { head: "Size", cell: (one) => sizeText(one.sizeBytes) },
        {
          head: "Run",
          cell: (one) => (one.runId ? <Id value={one.runId} href={`/runs/${one.runId}`} /> : "–"),
        },
        { head: "When", cell: (one) => <Time at={one.createdAt.toISOString()} /> },
        {
          head: "Actions",
          cell: (one) => (
            <span className="confirm">
              {one.parentId && (
                <button
                  type="button"
                  className="quiet"
                  onClick={() =>
                    navigate(
                      `/workspaces/${workspace.id}?tab=Changes&from=${one.parentId}&to=${one.id}`,
                    )
                  }
                >
                  Changes
                </button>
              )}
              {may("workspace-files:write") && one.id !== current && (
                <Confirm
                  isPlain
                  label="Restore"
                  question="It becomes a new version."
                  act={() => restore(one.id)}
                />
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function Commands({ workspace }: { workspace: WorkspaceHandle }): ReactNode {
  const { place } = useScope();
  const query = useQuery(
    `${place.environmentId} workspace ${workspace.id} execs`,
    () => workspace.execs.list({ limit: 50 }),
    3000,
  );
  return (
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
        { head: "Command", cell: (one) => <code>{one.command.join(" ")}</code> },
        { head: "Exit", cell: (one) => one.exitCode ?? one.signal ?? "–" },
        { head: "When", cell: (one) => <Time at={one.createdAt.toISOString()} /> },
      ]}
    />
  );
}

function Actions({
  workspace,
  one,
}: {
  workspace: WorkspaceHandle;
  one: WorkspaceSnapshot;
}): ReactNode {
  const { may, place } = useScope();
  const again = (): void => refreshAll(`${place.environmentId} workspace`);
  const stop = useSubmit(async () => {
    await workspace.stop();
    again();
  });
  const branch = useSubmit(async () => {
    const { workspace: made } = await client.workspaces.create({
      ...place,
      sandboxId: one.sandboxId,
      ...(one.currentVersionId !== undefined && { fromVersionId: one.currentVersionId }),
    });
    navigate(`/workspaces/${made.id}`);
  });
  const archive = useSubmit(async () => {
    await workspace.update({ state: one.state === "archived" ? "active" : "archived" });
    again();
  });
  if (!may("workspace-lifecycle:manage")) return null;
  const error = stop.error ?? branch.error ?? archive.error;
  return (
    <>
      {one.mount && (
        <button
          type="button"
          className="quiet"
          disabled={stop.isBusy}
          onClick={() => stop.submit()}
        >
          Stop
        </button>
      )}
      <button
        type="button"
        className="quiet"
        disabled={branch.isBusy}
        onClick={() => branch.submit()}
      >
        Branch
      </button>
      <button
        type="button"
        className="quiet"
        disabled={archive.isBusy}
        onClick={() => archive.submit()}
      >
        {one.state === "archived" ? "Unarchive" : "Archive"}
      </button>
      <Confirm
        label="Delete"
        question="All its versions go."
        act={async () => {
          await workspace.delete();
          again();
          navigate("/workspaces");
        }}
      />
      {error && <Trouble error={error} />}
    </>
  );
}

export default function WorkspacePage(): ReactNode {
  const id = useParam("workspace");
  const { place } = useScope();
  const workspace = client.workspaces.open(id, place);
  const {
    data: one,
    error,
    refresh,
  } = useQuery(`${place.environmentId} workspace ${id}`, () => workspace.retrieve(), 5000);
  const [tab, setTab] = useSearch("tab", "Files");
  const [version] = useSearch("version", "");
  const [from] = useSearch("from", "");
  const [to] = useSearch("to", "");
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!one) return null;
  return (
    <>
      <PageHead
        title={
          <>
            Workspace <Status value={one.state} />
          </>
        }
        lead={<code>{one.id}</code>}
      >
        <Actions workspace={workspace} one={one} />
      </PageHead>
      <Facts
        rows={[
          ["Sandbox", one.sandboxId],
          ["Mounted", one.mount && <Status value={one.mount.state} />],
          ["External id", one.externalId],
          ["Tags", one.tags.join(", ")],
          [
            "Branch of",
            one.forkedFrom && <Id value={one.forkedFrom} href={`/workspaces/${one.forkedFrom}`} />,
          ],
          ["Changed", <Time at={one.updatedAt.toISOString()} />],
        ]}
      />
      <div className="tabs" role="tablist" aria-label="Parts of the workspace">
        {tabs.map((name) => (
          <button
            key={name}
            type="button"
            role="tab"
            aria-selected={tab === name}
            onClick={() => setTab(name)}
          >
            {name}
          </button>
        ))}
      </div>
      {tab === "Files" && (
        <FileBrowser
          workspace={workspace}
          current={one.currentVersionId}
          version={version || undefined}
        />
      )}
      {tab === "Versions" && <Versions workspace={workspace} current={one.currentVersionId} />}
      {tab === "Changes" && (
        <DiffView
          path={`/workspaces/${id}/diff`}
          query={{ ...(from && { from }), ...(to && { to }) }}
        />
      )}
      {tab === "Commands" && <Commands workspace={workspace} />}
      {tab === "Terminal" && <Terminals workspace={workspace} />}
    </>
  );
}
