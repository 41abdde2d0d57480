import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Project } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { List } from "../../ui/list.tsx";
import { Confirm, Empty, NameForm, PageHead, Section } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";

export default function Projects(): ReactNode {
  const query = useQuery("projects", () => get<{ projects: Project[] }>("/projects"));
  return (
    <>
      <PageHead title="Projects" />
      <List
        query={query}
        items={query.data?.projects}
        keyOf={({ id }) => id}
        empty={<Empty title="There is no project" command="helmr project create NAME" />}
        columns={[
          {
            head: "Name",
            cell: (one) => (
              <>
                {one.name}
                {one.is_default && <span className="tag">default</span>}
              </>
            ),
          },
          { head: "Slug", cell: (one) => <code>{one.slug}</code> },
          {
            head: "Environments",
            cell: (one) => one.environments.map((environment) => environment.name).join(", "),
          },
          { head: "Created", cell: (one) => <Time at={one.created_at} /> },
          {
            head: "Actions",
            cell: (one) =>
              one.is_default ? null : (
                <span className="confirm">
                  <button
                    type="button"
                    className="quiet"
                    onClick={() =>
                      void send("PATCH", `/projects/${one.id}`, { is_default: true }).then(
                        query.refresh,
                      )
                    }
                  >
                    Make default
                  </button>
                  <Confirm
                    isPlain
                    label="Delete"
                    question="With all its environments."
                    act={async () => {
                      await send("DELETE", `/projects/${one.id}`);
                      query.refresh();
                    }}
                  />
                </span>
              ),
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
