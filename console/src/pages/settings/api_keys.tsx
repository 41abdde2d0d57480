// Keys for programs: each for one environment, with the permissions that were chosen, shown once.
import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../../api/client.ts";
import type { ApiKey } from "../../api/types.ts";
import { useSearch } from "../../app/router.tsx";
import { useScope, useScoped } from "../../app/scope.tsx";
import { List } from "../../ui/list.tsx";
import {
  Confirm,
  Empty,
  Field,
  Once,
  PageHead,
  Section,
  Status,
  useSubmit,
} from "../../ui/parts.tsx";
import { Time } from "../../ui/time.tsx";
import { Trouble } from "../../ui/trouble.tsx";

/* What a key may be for; the rest is for people. */
const scopes = [
  "runs:create",
  "runs:read",
  "runs:manage",
  "session-streams:read",
  "session-input:send",
  "session-output:append",
  "tokens:create",
  "tokens:read",
  "tokens:complete",
  "tokens:cancel",
  "secrets:write",
  "tasks:deploy",
  "workspace-lifecycle:manage",
  "workspace-files:read",
  "workspace-files:write",
  "workspace-versions:read",
  "workspace-exec:create",
  "workspace-exec:read",
  "workspace-exec:manage",
  "workspace-pty:create",
  "workspace-pty:read",
  "workspace-pty:manage",
];

function Create({ done }: { done(): void }): ReactNode {
  const { place } = useScope();
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [chosen, setChosen] = useState(() => new Set(["runs:create", "runs:read"]));
  const [made, setMade] = useState<string>();
  const { error, isBusy, submit } = useSubmit(async () => {
    const body = {
      name,
      expires_in_days: days === "never" ? null : Number(days),
      permissions: [{ scopes: [...chosen] }],
    };
    setMade((await send<{ raw_key: string }>("POST", "/api-keys", body, place)).raw_key);
    setName("");
    done();
  });
  return (
    <form onSubmit={submit} className="narrow">
      <Field label="Name">
        {(id) => (
          <input id={id} required value={name} onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      <Field label="Expires in">
        {(id) => (
          <select id={id} value={days} onChange={(event) => setDays(event.target.value)}>
            <option value="30">30 days</option>
            <option value="90">90 days</option>
            <option value="365">a year</option>
            <option value="never">never</option>
          </select>
        )}
      </Field>
      <fieldset className="checks">
        <legend>May</legend>
        {scopes.map((scope) => (
          <label key={scope}>
            <input
              type="checkbox"
              checked={chosen.has(scope)}
              onChange={(event) => {
                const next = new Set(chosen);
                if (event.target.checked) next.add(scope);
                else next.delete(scope);
                setChosen(next);
              }}
            />{" "}
            {scope}
          </label>
        ))}
      </fieldset>
      <button disabled={isBusy || chosen.size === 0}>Create</button>
      {error && <Trouble error={error} />}
      <Once words="Copy the key now; it is not shown again." text={made} />
    </form>
  );
}

export default function ApiKeys(): ReactNode {
  const { place, environment } = useScope();
  const [filter, setFilter] = useSearch("filter", "active");
  const query = useScoped<{ api_keys: ApiKey[] }>("/api-keys", { filter, limit: 200 });
  return (
    <>
      <PageHead title="API keys" lead={`For ${environment.name}`} />
      <div className="filters">
        <label>
          <span className="hidden">Which</span>
          <select value={filter} onChange={(event) => setFilter(event.target.value)}>
            {["active", "expired", "revoked", "all"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      <List
        query={query}
        items={query.data?.api_keys}
        keyOf={({ id }) => id}
        empty={
          <Empty
            title="There is no such key"
            command="helmr key create NAME --permission runs:create"
          />
        }
        columns={[
          { head: "Name", cell: (key) => key.name },
          { head: "Key", cell: (key) => <code>{key.key_prefix}…</code> },
          { head: "Status", cell: (key) => <Status value={key.status} /> },
          {
            head: "May",
            cell: (key) => (
              <span title={key.permissions.flatMap((one) => one.scopes).join("\n")}>
                {key.permissions.flatMap((one) => one.scopes).join(", ")}
              </span>
            ),
          },
          {
            head: "Expires",
            cell: (key) => (key.expires_at ? <Time at={key.expires_at} /> : "never"),
          },
          { head: "Last used", cell: (key) => <Time at={key.last_used_at} /> },
          {
            head: "Actions",
            cell: (key) =>
              key.status === "active" ? (
                <Confirm
                  isPlain
                  label="Revoke"
                  question="It stops working at once."
                  act={async () => {
                    await send("DELETE", `/api-keys/${key.id}`, undefined, place);
                    query.refresh();
                  }}
                />
              ) : null,
          },
        ]}
      />
      <Section title="New key">
        <Create done={query.refresh} />
      </Section>
    </>
  );
}
