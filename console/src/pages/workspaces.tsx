// Every workspace of the environment, those of runs among them.
import { useState } from "react";
import type { ReactNode } from "react";
import { client } from "../api/client.ts";
import { useQuery } from "../app/query.ts";
import { navigate, useSearch } from "../app/router.tsx";
import { useScope, useScoped } from "../app/scope.tsx";
import { Asked, wordsIn } from "../ui/form.tsx";
import { List } from "../ui/list.tsx";
import { Empty, Id, PageHead, Section, Status, useSubmit } from "../ui/parts.tsx";
import { Time } from "../ui/time.tsx";
import { Trouble } from "../ui/trouble.tsx";

const states = ["active", "archived", "recovery_required"] as const;

function Create(): ReactNode {
  const { place } = useScope();
  const sandboxes = useScoped<{ sandboxes: { sandbox_id: string }[] }>("/sandboxes");
  const [chosen, setChosen] = useState("");
  const [externalId, setExternalId] = useState("");
  const [tags, setTags] = useState("");
  const names = sandboxes.data?.sandboxes.map(({ sandbox_id }) => sandbox_id) ?? [];
  const sandboxId = chosen || names[0];
  const { error, isBusy, submit } = useSubmit(async () => {
    const { workspace } = await client.workspaces.create({
      ...place,
      sandboxId: sandboxId as string,
      ...(externalId && { externalId }),
      tags: wordsIn(tags),
    });
    navigate(`/workspaces/${workspace.id}`);
  });
  if (names.length === 0) return null;
  return (
    <Section title="New workspace">
      <form onSubmit={submit} className="narrow">
        <Asked label="Sandbox" hint="of the current deployment">
          {(props) => (
            <select
              {...props}
              value={sandboxId}
              onChange={(event) => setChosen(event.target.value)}
            >
              {names.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Asked>
        <Asked label="External id" hint="a name of yours, if you like">
          {(props) => (
            <input
              {...props}
              value={externalId}
              onChange={(event) => setExternalId(event.target.value)}
            />
          )}
        </Asked>
        <Asked label="Tags" hint="separated by commas">
          {(props) => (
            <input {...props} value={tags} onChange={(event) => setTags(event.target.value)} />
          )}
        </Asked>
        <button disabled={isBusy}>Create</button>
        {error && <Trouble error={error} />}
      </form>
    </Section>
  );
}

export default function Workspaces(): ReactNode {
  const { place, may } = useScope();
  const [state, setState] = useSearch("state", "active");
  const [externalId, setExternalId] = useSearch("external_id", "");
  const [tag, setTag] = useSearch("tag", "");
  const query = useQuery(`${place.environmentId} workspaces ${state} ${externalId} ${tag}`, () =>
    client.workspaces.list({
      ...place,
      state: state as (typeof states)[number],
      limit: 100,
      ...(externalId && { externalId }),
      ...(tag && { tag }),
    }),
  );
  return (
    <>
      <PageHead title="Workspaces" lead="Files that outlive the runs that made them" />
      <div className="filters" role="search">
        <label>
          <span className="hidden">State</span>
          <select value={state} onChange={(event) => setState(event.target.value)}>
            {states.map((one) => (
              <option key={one} value={one}>
                {one.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
        <input
          type="search"
          aria-label="External id"
          placeholder="External id"
          value={externalId}
          onChange={(event) => setExternalId(event.target.value)}
        />
        <input
          type="search"
          aria-label="Tag"
          placeholder="Tag"
          value={tag}
          onChange={(event) => setTag(event.target.value)}
        />
      </div>
      <List
        query={query}
        items={query.data}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No workspace is like that" command="helmr workspace create --sandbox NAME">
            Every run has one; you can also make one of your own:
          </Empty>
        }
        columns={[
          { head: "State", cell: (one) => <Status value={one.state} /> },
          {
            head: "Workspace",
            cell: (one) => <Id value={one.id} href={`/workspaces/${one.id}`} />,
          },
          { head: "Sandbox", cell: (one) => one.sandboxId },
          {
            head: "Sandbox is",
            cell: (one) =>
              one.mount ? <Status value={one.mount.state} /> : <span className="dim">stopped</span>,
          },
          {
            head: "External id",
            cell: (one) => one.externalId ?? <span className="dim">–</span>,
          },
          {
            head: "Tags",
            cell: (one) =>
              one.tags.length === 0 ? (
                <span className="dim">–</span>
              ) : (
                one.tags.map((name) => (
                  <span key={name} className="tag">
                    {name}
                  </span>
                ))
              ),
          },
          { head: "Changed", cell: (one) => <Time at={one.updatedAt.toISOString()} /> },
        ]}
      />
      {may("workspace-lifecycle:manage") && <Create />}
    </>
  );
}
