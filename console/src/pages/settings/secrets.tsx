// Secrets by name: set here, read by tasks, shown to nobody.
import { useRef, useState } from "react";
import type { ReactNode } from "react";
import { send } from "../../api/client.ts";
import type { Secret } from "../../api/types.ts";
import { useScope, useScoped } from "../../app/scope.tsx";
import { Asked, fieldOf } from "../../ui/form.tsx";
import { List } from "../../ui/list.tsx";
import { Confirm, Empty, PageHead, Section, useSubmit } from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

export default function Secrets(): ReactNode {
  const { place } = useScope();
  const query = useScoped<{ secrets: Secret[] }>("/secrets", { limit: 200 });
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const valueField = useRef<HTMLInputElement>(null);
  const [done, setDone] = useState("");
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PUT", `/secrets/${encodeURIComponent(name)}`, { value }, place);
    setDone(name);
    setName("");
    setValue("");
    query.refresh();
  });
  const about = fieldOf(error);
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
              <span className="confirm">
                <button
                  type="button"
                  className="quiet"
                  onClick={() => {
                    setName(secret.name);
                    valueField.current?.focus();
                  }}
                >
                  Replace
                </button>
                <Confirm
                  isPlain
                  label="Delete"
                  question="Tasks that need it cannot start."
                  act={async () => {
                    const path = `/secrets/${encodeURIComponent(secret.name)}`;
                    await send("DELETE", path, undefined, place);
                    query.refresh();
                  }}
                />
              </span>
            ),
          },
        ]}
      />
      <Section title="Set a secret">
        <form onSubmit={submit} className="narrow" autoComplete="off">
          <Asked
            label="Name"
            hint="as an environment variable; an existing one is replaced"
            problem={about?.path[0] === "name" ? about.message : undefined}
          >
            {(props) => (
              <input
                {...props}
                required
                className="mono"
                pattern="[A-Za-z_][A-Za-z0-9_]*"
                title="Letters, digits and _, not beginning with a digit"
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Asked>
          <Asked
            label="Value"
            hint="nobody can read it here again"
            problem={about?.path[0] === "value" ? about.message : undefined}
          >
            {(props) => (
              <input
                {...props}
                ref={valueField}
                type="password"
                required
                autoComplete="new-password"
                value={value}
                onChange={(event) => setValue(event.target.value)}
              />
            )}
          </Asked>
          <button disabled={isBusy}>Set</button>
          {error && !about && <Trouble error={error} />}
          {done && (
            <p className="said" role="status">
              {done} was set.
            </p>
          )}
        </form>
      </Section>
    </>
  );
}
