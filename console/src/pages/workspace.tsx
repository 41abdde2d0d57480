// One workspace: its files, its versions and what they changed, commands and terminals.
import { lazy } from "react";
import type { ReactNode } from "react";
import type { WorkspaceHandle, WorkspaceSnapshot } from "@helmr/sdk";
import { client } from "../api/client.ts";
import { refreshAll, useQuery } from "../app/query.ts";
import { navigate, useParam, useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { Commands } from "../ui/commands.tsx";
import { FileBrowser } from "../ui/file_browser.tsx";
import { Confirm, Copy, Facts, Id, PageHead, Status, Tabs, useSubmit } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";
import { Changes, Versions } from "../ui/versions.tsx";

/* The terminal is large, and most people come for the files. */
const Terminals = lazy(() => import("../ui/terminals.tsx"));
const tabs = ["Files", "Versions", "Changes", "Commands", "Terminal"] as const;

function Actions({
  workspace,
  one,
}: {
  workspace: WorkspaceHandle;
  one: WorkspaceSnapshot;
}): ReactNode {
  const { may, place } = useScope();
  const again = (): void => refreshAll(`${place.environmentId} workspace`);
  const start = useSubmit(async () => {
    await workspace.materialize();
    again();
  });
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
  const error = start.error ?? stop.error ?? branch.error ?? archive.error;
  return (
    <>
      {one.mount ? (
        <button
          type="button"
          className="quiet"
          disabled={stop.isBusy}
          onClick={() => stop.submit()}
        >
          Stop
        </button>
      ) : (
        one.state === "active" && (
          <button
            type="button"
            className="quiet"
            title="Starts its sandbox, ready for commands and terminals"
            disabled={start.isBusy}
            onClick={() => start.submit()}
          >
            Start
          </button>
        )
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
        isPlain
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
        lead={
          <span className="with-copy">
            <code>{one.id}</code> <Copy text={one.id} />
          </span>
        }
      >
        <Actions workspace={workspace} one={one} />
      </PageHead>
      <Facts
        rows={[
          ["Sandbox", one.sandboxId],
          ["Sandbox is", <Status value={one.mount?.state ?? "stopped"} />],
          ["External id", one.externalId],
          [
            "Tags",
            one.tags.length === 0
              ? undefined
              : one.tags.map((tag) => (
                  <span key={tag} className="tag" title={tag}>
                    {tag}
                  </span>
                )),
          ],
          [
            "Branch of",
            one.forkedFrom && <Id value={one.forkedFrom} href={`/workspaces/${one.forkedFrom}`} />,
          ],
          ["Changed", <Time at={one.updatedAt.toISOString()} />],
        ]}
      />
      <Tabs label="Parts of the workspace" names={tabs} value={tab} choose={setTab}>
        {tab === "Files" && (
          <FileBrowser
            workspace={workspace}
            current={one.currentVersionId}
            version={version || undefined}
            isMounted={one.mount?.state === "mounted"}
          />
        )}
        {tab === "Versions" && (
          <Versions
            workspace={workspace}
            current={one.currentVersionId}
            sandboxId={one.sandboxId}
          />
        )}
        {tab === "Changes" && <Changes workspace={workspace} current={one.currentVersionId} />}
        {tab === "Commands" && <Commands workspace={workspace} />}
        {tab === "Terminal" && <Terminals workspace={workspace} />}
      </Tabs>
    </>
  );
}
