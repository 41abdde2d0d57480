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

/* What a key may be for, by what it is about; the rest is for people. */
const scopes: Record<string, string[]> = {
  runs: ["create", "read", "manage"],
  tasks: ["deploy"],
  secrets: ["write"],
  tokens: ["create", "read", "complete", "cancel"],
  "session-streams": ["read"],
  "session-input": ["send"],
  "session-output": ["append"],
  "workspace-lifecycle": ["manage"],
  "workspace-files": ["read", "write"],
  "workspace-versions": ["read"],
  "workspace-exec": ["create", "read", "manage"],
  "workspace-pty": ["create", "read", "manage"],
};

const usual: Record<string, string[]> = {
  "Start runs": ["runs:create", "runs:read"],
  Deploy: ["tasks:deploy", "runs:read"],
  Everything: Object.entries(scopes).flatMap(([about, verbs]) =>
    verbs.map((verb) => `${about}:${verb}`),
  ),
};

function Scopes({
  chosen,
  set,
}: {
  chosen: Set<string>;
  set(chosen: Set<string>): void;
}): ReactNode {
  return (
    <fieldset className="group">
      <legend>May</legend>
      <div className="chips" role="group" aria-label="Usual sets">
        {Object.entries(usual).map(([words, names]) => (
          <button key={words} type="button" className="quiet" onClick={() => set(new Set(names))}>
            {words}
          </button>
        ))}
      </div>
      <div className="scopes-of">
        {Object.entries(scopes).map(([about, verbs]) => (
          <div key={about} role="group" aria-label={about}>
            <b>{about}</b>
            <span>
              {verbs.map((verb) => {
                const scope = `${about}:${verb}`;
                return (
                  <label key={verb}>
                    <input
                      type="checkbox"
                      aria-label={scope}
                      checked={chosen.has(scope)}
                      onChange={(event) => {
                        const next = new Set(chosen);
                        if (event.target.checked) next.add(scope);
                        else next.delete(scope);
                        set(next);
                      }}
                    />{" "}
                    {verb}
                  </label>
                );
              })}
            </span>
          </div>
        ))}
      </div>
    </fieldset>
  );
}

const scopesOf = (key: ApiKey): string[] => key.permissions.flatMap((one) => one.scopes);

function summary(names: string[]): string {
  const shown = names.slice(0, 2).join(", ");
  return names.length > 2 ? `${shown} and ${names.length - 2} more` : shown;
}

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
      <Scopes chosen={chosen} set={setChosen} />
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
              <span title={scopesOf(key).join("\n")}>{summary(scopesOf(key))}</span>
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
