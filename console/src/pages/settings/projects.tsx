import { useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Project } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { List } from "../../ui/list.tsx";
import { Confirm, Empty, NameForm, PageHead, Section, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

function Name({ one, done }: { one: Project; done(): void }): ReactNode {
  const [name, setName] = useState(one.name);
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PATCH", `/projects/${one.id}`, { name });
    done();
  });
  return (
    <form onSubmit={submit} className="confirm">
      <input
        aria-label={`Name of ${one.slug}`}
        required
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      {name !== one.name && <button disabled={isBusy}>Rename</button>}
      {one.is_default && <span className="tag">default</span>}
      {error && <Trouble error={error} />}
    </form>
  );
}

function Actions({ one, done }: { one: Project; done(): void }): ReactNode {
  const path = `/projects/${one.id}`;
  const choose = useSubmit(async () => {
    await send("PATCH", path, { is_default: true });
    done();
  });
  if (one.is_default) return null;
  return (
    <span className="confirm">
      <button
        type="button"
        className="quiet"
        disabled={choose.isBusy}
        onClick={() => choose.submit()}
      >
        Make default
      </button>
      <Confirm
        isPlain
        label="Delete"
        question="With all its environments."
        act={async () => {
          await send("DELETE", path);
          done();
        }}
      />
      {choose.error && <Trouble error={choose.error} />}
    </span>
  );
}

export default function Projects(): ReactNode {
  const query = useQuery("projects", () => get<{ projects: Project[] }>("/projects"));
  return (
    <>
      <PageHead title="Projects" lead="Each with environments, secrets and keys of its own" />
      <List
        query={query}
        items={query.data?.projects}
        keyOf={({ id }) => id}
        empty={<Empty title="There is no project" command="helmr project create NAME" />}
        columns={[
          {
            head: "Name",
            cell: (one) => <Name key={one.name} one={one} done={query.refresh} />,
          },
          { head: "Slug", cell: (one) => <code>{one.slug}</code> },
          {
            head: "Environments",
            cell: (one) => one.environments.map((environment) => environment.name).join(", "),
          },
          { head: "Created", cell: (one) => <Time at={one.created_at} /> },
          {
            head: "Actions",
            cell: (one) => <Actions one={one} done={query.refresh} />,
          },
        ]}
      />
      <Section title="New project">
        <NameForm
          create={async (name) => {
            await send("POST", "/projects", { name });
            query.refresh();
          }}
        />
      </Section>
    </>
  );
}
