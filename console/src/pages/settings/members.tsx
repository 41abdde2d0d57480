// Who may sign in, as what, and who has been asked to.
import { useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Invitation, Member } from "../../api/types.ts";
import { useQuery } from "../../app/query.ts";
import { useScope } from "../../app/scope.tsx";
import { List } from "../../ui/list.tsx";
import {
  Confirm,
  Copy,
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

const roles = ["owner", "admin", "developer", "viewer"];
const roleWords: Record<string, string> = {
  owner: "everything, and makes other owners",
  admin: "everything but making owners",
  developer: "deploys, runs, answers and works in workspaces",
  viewer: "sees runs, sessions and workspaces, and changes nothing",
};

/** Only owners make owners. */
function useRoles(): string[] {
  const { me } = useScope();
  return me.role === "owner" ? roles : roles.slice(1);
}

function Role({ member, done }: { member: Member; done(): void }): ReactNode {
  const [role, setRole] = useState(member.role);
  const mine = useRoles();
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PATCH", `/members/${member.user_id}`, { role, expected_role: member.role });
    done();
  });
  if (!mine.includes(member.role)) return member.role;
  return (
    <form onSubmit={submit} className="confirm">
      <select
        aria-label={`Role of ${member.email}`}
        value={role}
        onChange={(event) => setRole(event.target.value)}
      >
        {mine.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
      {role !== member.role && <button disabled={isBusy}>Change</button>}
      {error && <Trouble error={error} />}
    </form>
  );
}

function Link({ member }: { member: Member }): ReactNode {
  const [url, setUrl] = useState<string>();
  const { error, submit } = useSubmit(async () => {
    setUrl(
      (await send<{ reset_url: string }>("POST", `/members/${member.user_id}/password-reset`, {}))
        .reset_url,
    );
  });
  return (
    <>
      {url ? (
        <Copy text={url} label="Copy the link" />
      ) : (
        <button type="button" className="quiet" onClick={() => submit()}>
          Reset password
        </button>
      )}
      {error && <Trouble error={error} />}
    </>
  );
}

function Turn({ member, done }: { member: Member; done(): void }): ReactNode {
  const status = member.status === "active" ? "disabled" : "active";
  const act = async (): Promise<void> => {
    await send("PATCH", `/members/${member.user_id}`, { status, expected_role: member.role });
    done();
  };
  const enable = useSubmit(act);
  if (status === "disabled")
    return (
      <Confirm isPlain label="Disable" question="They cannot sign in any more." act={act} />
    );
  return (
    <>
      <button
        type="button"
        className="quiet"
        disabled={enable.isBusy}
        onClick={() => enable.submit()}
      >
        Enable
      </button>
      {enable.error && <Trouble error={enable.error} />}
    </>
  );
}

function Invite({ done }: { done(): void }): ReactNode {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("developer");
  const mine = useRoles();
  const [url, setUrl] = useState<string>();
  const { error, isBusy, submit } = useSubmit(async () => {
    setUrl((await send<Invitation>("POST", "/invitations", { email, role })).invite_url);
    setEmail("");
    done();
  });
  return (
    <form onSubmit={submit} className="narrow">
      <Field label="E-mail">
        {(id) => (
          <input
            id={id}
            type="email"
            required
            value={email}
            onChange={(event) => setEmail(event.target.value)}
          />
        )}
      </Field>
      <Field label="Role" hint={roleWords[role] ?? ""}>
        {(id) => (
          <select id={id} value={role} onChange={(event) => setRole(event.target.value)}>
            {mine.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
      </Field>
      <button disabled={isBusy}>Invite</button>
      {error && <Trouble error={error} />}
      <Once words="Send this link; it is not shown again." text={url} />
    </form>
  );
}

export default function Members(): ReactNode {
  const { me } = useScope();
  const members = useQuery("members", () => get<{ members: Member[] }>("/members"));
  const invitations = useQuery("invitations", () =>
    get<{ invitations: Invitation[] }>("/invitations"),
  );
  const pending = invitations.data?.invitations.filter(({ status }) => status === "pending") ?? [];
  return (
    <>
      <PageHead title="Members" lead={me.organization.name} />
      <List
        query={members}
        items={members.data?.members}
        keyOf={({ user_id }) => user_id}
        empty={<Empty title="Nobody is here" />}
        columns={[
          { head: "Name", cell: (one) => one.display_name || <span className="dim">–</span> },
          { head: "E-mail", cell: (one) => one.email },
          {
            head: "Role",
            cell: (one) => <Role key={one.role} member={one} done={members.refresh} />,
          },
          { head: "Status", cell: (one) => <Status value={one.status} /> },
          { head: "Since", cell: (one) => <Time at={one.created_at} /> },
          {
            head: "Actions",
            cell: (one) => (
              <span className="confirm">
                {(one.role !== "owner" || me.role === "owner") && <Link member={one} />}
                {(one.role !== "owner" || me.role === "owner") && one.user_id !== me.user?.id && (
                  <>
                    <Turn member={one} done={members.refresh} />
                    <Confirm
                      isPlain
                      label="Remove"
                      question="Their sessions end."
                      act={async () => {
                        await send("DELETE", `/members/${one.user_id}`);
                        members.refresh();
                      }}
                    />
                  </>
                )}
              </span>
            ),
          },
        ]}
      />
      {pending.length > 0 && (
        <Section title="Invited">
          <List
            query={invitations}
            items={pending}
            keyOf={({ id }) => id}
            empty={null}
            columns={[
              { head: "E-mail", cell: (one) => one.email },
              { head: "Role", cell: (one) => one.role },
              { head: "Expires", cell: (one) => <Time at={one.expires_at} /> },
              {
                head: "Actions",
                cell: (one) => (
                  <Confirm
                    isPlain
                    label="Withdraw"
                    question="The link stops working."
                    act={async () => {
                      await send("DELETE", `/invitations/${one.id}`);
                      invitations.refresh();
                    }}
                  />
                ),
              },
            ]}
          />
        </Section>
      )}
      <Section title="Invite somebody">
        <Invite done={invitations.refresh} />
      </Section>
    </>
  );
}
