// Secrets by name: set here, read by tasks, shown to nobody.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../../api/client.ts";
import type { Secret } from "../../api/types.ts";
import { useScope, useScoped } from "../../app/scope.tsx";
import { List } from "../../ui/list.tsx";
import { Confirm, Empty, Field, PageHead, Section, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

export default function Secrets(): ReactNode {
  const { place } = useScope();
  const query = useScoped<{ secrets: Secret[] }>("/secrets", { limit: 200 });
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PUT", `/secrets/${encodeURIComponent(name)}`, { value }, place);
    setName("");
    setValue("");
    query.refresh();
  });
  return (
    <>
      <PageHead
        title="Secrets"
        lead="Encrypted at rest, given to a sandbox only while a run that declares them runs"
      />
      <List
        query={query}
        items={query.data?.secrets}
        keyOf={(secret) => secret.name}
        empty={<Empty title="There is no secret here" command="helmr secret set NAME" />}
        columns={[
          { head: "Name", cell: (secret) => <code>{secret.name}</code> },
          { head: "Set", cell: (secret) => <Time at={secret.updated_at} /> },
          { head: "First set", cell: (secret) => <Time at={secret.created_at} /> },
          {
            head: "Actions",
            cell: (secret) => (
              <Confirm
                isPlain
                label="Delete"
                question="Tasks that need it cannot start."
                act={async () => {
                  await send(
                    "DELETE",
                    `/secrets/${encodeURIComponent(secret.name)}`,
                    undefined,
                    place,
                  );
                  query.refresh();
                }}
              />
            ),
          },
        ]}
      />
      <Section title="Set a secret">
        <form onSubmit={submit} className="narrow" autoComplete="off">
          <Field label="Name" hint="an existing one is replaced">
            {(id) => (
              <input
                id={id}
                required
                pattern="[A-Za-z_][A-Za-z0-9_]*"
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Field>
          <Field label="Value" hint="not shown again">
            {(id) => (
              <input
                id={id}
                type="password"
                required
                autoComplete="new-password"
                value={value}
                onChange={(event) => setValue(event.target.value)}
              />
            )}
          </Field>
          <button disabled={isBusy}>Set</button>
          {error && <Trouble error={error} />}
        </form>
      </Section>
    </>
  );
}
