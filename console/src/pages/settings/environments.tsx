import { useState } from "react";
import type { ReactNode } from "react";
import { send } from "../../api/client.ts";
import type { Environment } from "../../api/types.ts";
import { refreshAll } from "../../app/query.ts";
import { useScope } from "../../app/scope.tsx";
import { Confirm, Field, NameForm, PageHead, Section, useSubmit } from "../../ui/parts.tsx";
import { Trouble } from "../../ui/trouble.tsx";

const grades = ["shared-kernel", "user-kernel", "microvm"];

function Edit({ one }: { one: Environment }): ReactNode {
  const [color, setColor] = useState(one.color_hex);
  const [grade, setGrade] = useState(one.min_grade);
  const path = `/projects/${one.project_id}/environments/${one.id}`;
  const { error, isBusy, submit } = useSubmit(async () => {
    await send("PATCH", path, { color_hex: color, min_grade: grade });
    refreshAll("projects");
  });
  return (
    <form onSubmit={submit} className="card wide">
      <header className="section-head">
        <h2>
          {one.name} <code className="dim">{one.slug}</code>
          {one.is_default && <span className="tag">default</span>}
        </h2>
        {one.slug !== "production" && one.slug !== "staging" && (
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
      <div className="filters">
        <Field label="Colour">
          {(id) => (
            <input
              id={id}
              type="color"
              value={color}
              onChange={(event) => setColor(event.target.value)}
            />
          )}
        </Field>
        <Field label="Least isolation">
          {(id) => (
            <select id={id} value={grade} onChange={(event) => setGrade(event.target.value)}>
              {grades.map((value) => (
                <option key={value}>{value}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Worker group">
          {(id) => <input id={id} readOnly value={one.worker_group} />}
        </Field>
        {(color !== one.color_hex || grade !== one.min_grade) && (
          <button disabled={isBusy}>Save</button>
        )}
      </div>
      {error && <Trouble error={error} />}
    </form>
  );
}

export default function Environments(): ReactNode {
  const { project } = useScope();
  return (
    <>
      <PageHead title="Environments" lead={project.name} />
      <div className="stack">
        {project.environments.map((one) => (
          <Edit key={`${one.id} ${one.color_hex} ${one.min_grade}`} one={one} />
        ))}
      </div>
      <Section title="New environment">
        <NameForm
          create={async (name) => {
            await send("POST", `/projects/${project.id}/environments`, { name });
            refreshAll("projects");
          }}
        />
      </Section>
    </>
  );
}
