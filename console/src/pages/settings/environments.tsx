// The environments of the project: their names, colours, isolation, workers and limits.
import { useState } from "react";
import type { ReactNode } from "react";
import { get, send } from "../../api/client.ts";
import type { Environment, WorkerGroup } from "../../api/types.ts";
import { refreshAll, useQuery } from "../../app/query.ts";
import { useScope } from "../../app/scope.tsx";
import { Asked, fieldOf } from "../../ui/form.tsx";
import { Confirm, PageHead, Section, useSubmit } from "../../ui/parts.tsx";
import { Trouble } from "../../ui/trouble.tsx";

const grades = ["shared-kernel", "user-kernel", "microvm"];
const gigabyte = 1e9;

interface Draft {
  name: string;
  color_hex: string;
  min_grade: string;
  worker_group: string;
  workspaces: string;
  storage: string;
}

function draftOf(one: Environment): Draft {
  const { workspaces, storage_bytes } = one.limits;
  return {
    name: one.name,
    color_hex: one.color_hex,
    min_grade: one.min_grade,
    worker_group: one.worker_group,
    workspaces: workspaces === undefined ? "" : String(workspaces),
    storage: storage_bytes === undefined ? "" : String(storage_bytes / gigabyte),
  };
}

/** Only what was changed; a limit that was emptied is lifted. */
function changesOf(draft: Draft, before: Draft): Record<string, unknown> {
  const { workspaces, storage, ...plain } = draft;
  const changed = Object.entries(plain).filter(
    ([name, value]) => value !== before[name as keyof Draft],
  );
  const hasLimits = workspaces !== before.workspaces || storage !== before.storage;
  const limits = {
    workspaces: workspaces === "" ? null : Number(workspaces),
    storage_bytes: storage === "" ? null : Math.round(Number(storage) * gigabyte),
  };
  return { ...Object.fromEntries(changed), ...(hasLimits && { limits }) };
}

function Edit({ one, groups }: { one: Environment; groups: string[] }): ReactNode {
  const before = draftOf(one);
  const [draft, setDraft] = useState(before);
  const path = `/projects/${one.project_id}/environments/${one.id}`;
  const isProtected = one.slug === "production" || one.slug === "staging";
  const changes = changesOf(draft, before);
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PATCH", path, changes);
    refreshAll("projects");
  });
  const about = fieldOf(error);
  const field = (
    name: keyof Draft,
    label: string,
    type: string,
    { at = name as string, hint }: { at?: string; hint?: string } = {},
  ): ReactNode => (
    <Asked
      label={label}
      hint={hint}
      problem={about?.path.join("/") === at ? about.message : undefined}
    >
      {(props) => (
        <input
          {...props}
          type={type}
          {...(type === "number" && { min: 0, step: "any" })}
          value={draft[name]}
          onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
        />
      )}
    </Asked>
  );
  const choice = (name: keyof Draft, label: string, values: string[]): ReactNode => (
    <Asked label={label} problem={about?.path[0] === name ? about.message : undefined}>
      {(props) => (
        <select
          {...props}
          value={draft[name]}
          onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
        >
          {values.map((value) => (
            <option key={value}>{value}</option>
          ))}
        </select>
      )}
    </Asked>
  );
  return (
    <form onSubmit={submit} className="card wide" aria-label={one.name}>
      <header className="section-head">
        <h2>
          <i
            className="swatch"
            aria-hidden="true"
            ref={(dot) => dot?.style.setProperty("--environment", draft.color_hex)}
          />
          {one.name} <code className="dim">{one.slug}</code>
          {one.is_default && <span className="tag">default</span>}
          {isProtected && (
            <span className="tag" title="It cannot be renamed or deleted">
              protected
            </span>
          )}
        </h2>
        {!isProtected && (
          <Confirm
            isPlain
            label="Delete"
            question="With everything in it."
            act={async () => {
              await send("DELETE", path);
              refreshAll("projects");
            }}
          />
        )}
      </header>
      <div className="fields">
        {!isProtected && field("name", "Name", "text")}
        {field("color_hex", "Colour", "color")}
        {choice("min_grade", "Least isolation", grades)}
        {choice(
          "worker_group",
          "Worker group",
          groups.includes(one.worker_group) ? groups : [one.worker_group, ...groups],
        )}
        {field("workspaces", "Most workspaces", "number", {
          at: "limits/workspaces",
          hint: "empty: no limit",
        })}
        {field("storage", "Most storage, in GB", "number", {
          at: "limits/storage_bytes",
          hint: "empty: no limit",
        })}
      </div>
      {Object.keys(changes).length > 0 && (
        <span className="confirm">
          <button disabled={isBusy}>Save</button>
          <button type="button" className="quiet" onClick={() => setDraft(before)}>
            Undo
          </button>
        </span>
      )}
      {error && !about && <Trouble error={error} />}
    </form>
  );
}

function Create({ projectId }: { projectId: string }): ReactNode {
  const [name, setName] = useState("");
  const [slug, setSlug] = useState("");
  const [color, setColor] = useState("#7d4fd1");
  const { error, isBusy, submit } = useSubmit(async () => {
    const body = { name, color_hex: color, ...(slug && { slug }) };
    await send("POST", `/projects/${projectId}/environments`, body);
    setName("");
    setSlug("");
    refreshAll("projects");
  });
  const about = fieldOf(error);
  const saidOf = (field: string): string | undefined =>
    about?.path[0] === field ? about.message : undefined;
  return (
    <form onSubmit={submit} className="narrow">
      <Asked label="Name" problem={saidOf("name")}>
        {(props) => (
          <input
            {...props}
            required
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Asked>
      <Asked label="Slug" hint="for the CLI; made from the name" problem={saidOf("slug")}>
        {(props) => (
          <input {...props} value={slug} onChange={(event) => setSlug(event.target.value)} />
        )}
      </Asked>
      <Asked label="Colour" problem={saidOf("color_hex")}>
        {(props) => (
          <input
            {...props}
            type="color"
            value={color}
            onChange={(event) => setColor(event.target.value)}
          />
        )}
      </Asked>
      <button disabled={isBusy}>Create</button>
      {error && !about && <Trouble error={error} />}
    </form>
  );
}

export default function Environments(): ReactNode {
  const { project } = useScope();
  const groups = useQuery("worker groups", () =>
    get<{ worker_groups: WorkerGroup[] }>("/worker-groups"),
  );
  const names = groups.data?.worker_groups.map(({ name }) => name) ?? [];
  return (
    <>
      <PageHead title="Environments" lead={`Of ${project.name}`} />
      <div className="stack">
        {project.environments.map((one) => (
          <Edit key={`${one.id} ${JSON.stringify(draftOf(one))}`} one={one} groups={names} />
        ))}
      </div>
      <Section title="New environment">
        <Create projectId={project.id} />
      </Section>
    </>
  );
}
