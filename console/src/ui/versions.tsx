// The versions of a workspace: what each is, what lies between any two, and the way back to one.
import { useState } from "react";
import type { ReactNode } from "react";
import type { WorkspaceHandle, WorkspaceVersion } from "@helmr/sdk";
import { client } from "../api/client.ts";
import { refreshAll, useQuery } from "../app/query.ts";
import { navigate, useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { DiffView } from "./diff_view.tsx";
import { Asked } from "./form.tsx";
import { List } from "./list.tsx";
import { Confirm, Empty, Id, useSubmit } from "./parts.tsx";
import { sizeText } from "./bytes.ts";
import { Time, ago } from "./time.tsx";
import { Trouble } from "./trouble.tsx";

interface Of {
  workspace: WorkspaceHandle;
  current: string | undefined;
  sandboxId: string;
}

export function useVersions(workspace: WorkspaceHandle) {
  const { place } = useScope();
  return useQuery(`${place.environmentId} workspace ${workspace.id} versions`, () =>
    workspace.versions.list({ limit: 100 }),
  );
}

function Branch({ sandboxId, from }: { sandboxId: string; from: string }): ReactNode {
  const { place } = useScope();
  const { error, isBusy, submit } = useSubmit(async () => {
    const { workspace } = await client.workspaces.create({
      ...place,
      sandboxId,
      fromVersionId: from,
    });
    navigate(`/workspaces/${workspace.id}`);
  });
  return (
    <>
      <button type="button" className="quiet" disabled={isBusy} onClick={() => submit()}>
        Branch
      </button>
      {error && <Trouble error={error} />}
    </>
  );
}

export function Versions({ workspace, current, sandboxId }: Of): ReactNode {
  const { may, place } = useScope();
  const query = useVersions(workspace);
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
        {
          head: "By",
          cell: (one) =>
            one.runId ? (
              <>
                run <Id value={one.runId} href={`/runs/${one.runId}`} />
              </>
            ) : one.kind === "user" ? (
              "a person"
            ) : (
              "direct work"
            ),
        },
        { head: "Files", cell: (one) => one.entries.toLocaleString("en") },
        { head: "Size", cell: (one) => sizeText(one.sizeBytes) },
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
              {may("workspace-lifecycle:manage") && <Branch sandboxId={sandboxId} from={one.id} />}
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

function Choice({
  label,
  versions,
  current,
  value,
  set,
}: {
  label: string;
  versions: WorkspaceVersion[];
  current: string | undefined;
  value: string;
  set(id: string): void;
}): ReactNode {
  const [now] = useState(() => Date.now());
  /* One of another workspace, such as the source of a branch, is in no list of this one. */
  const isOther = value !== "" && value !== "live" && versions.every(({ id }) => id !== value);
  return (
    <Asked label={label}>
      {(props) => (
        <select {...props} value={value} onChange={(event) => set(event.target.value)}>
          {isOther && <option value={value}>{value.slice(-12)}</option>}
          {versions.map((one) => (
            <option key={one.id} value={one.id}>
              {one.id.slice(-12)} · {ago(one.createdAt.getTime(), now)}
              {one.id === current ? " · current" : ""}
            </option>
          ))}
        </select>
      )}
    </Asked>
  );
}

/** Any two versions side by side; at first the current one and what it was made from. */
export function Changes({ workspace, current }: Omit<Of, "sandboxId">): ReactNode {
  const { data: versions, error, refresh } = useVersions(workspace);
  const [from, setFrom] = useSearch("from", "");
  const [to, setTo] = useSearch("to", "");
  if (error) return <Trouble error={error} retry={refresh} />;
  if (!versions) return null;
  const after = to || current || "";
  const before = from || versions.find(({ id }) => id === after)?.parentId || "";
  if (after === "") return <Empty title="Nothing was ever written here" />;
  return (
    <>
      <div className="filters compare">
        <Choice label="From" {...{ versions, current }} value={before} set={setFrom} />
        <button
          type="button"
          className="quiet"
          disabled={before === ""}
          onClick={() =>
            navigate(`/workspaces/${workspace.id}?tab=Changes&from=${after}&to=${before}`)
          }
        >
          Swap
        </button>
        <Choice label="To" {...{ versions, current }} value={after} set={setTo} />
      </div>
      {before === "" ? (
        <Empty title="It is the first version">All its files are new.</Empty>
      ) : (
        <DiffView
          path={`/workspaces/${workspace.id}/diff`}
          query={{ from: before, to: after }}
        />
      )}
    </>
  );
}
