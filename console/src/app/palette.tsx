// Everything by its name: pages, and a run, session or workspace by its id.
import { useId, useMemo, useState } from "react";
import type { ReactNode } from "react";
import type { Task } from "../api/types.ts";
import { Dialog } from "../ui/dialog.tsx";
import { settings, work } from "./places.ts";
import { navigate } from "./router.tsx";
import { useScope, useScoped } from "./scope.tsx";

interface Choice {
  label: string;
  hint: string;
  go(): void;
}

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function useChoices(text: string, nextTheme: () => void): Choice[] {
  const { projects, may, choose } = useScope();
  const tasks = useScoped<{ tasks: Task[] }>("/tasks").data?.tasks;
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (idPattern.test(wanted))
      return ["runs", "sessions", "workspaces", "deployments"].map((kind) => ({
        label: `Open ${wanted} in ${kind}`,
        hint: "id",
        go: () => navigate(`/${kind}/${wanted}`),
      }));
    const pages = [...work, ...settings]
      .filter(({ needs }) => needs === undefined || may(needs))
      .map(({ href, label, key }) => ({
        label,
        hint: key ? `g ${key}` : "",
        go: () => navigate(href),
      }));
    const environments = projects.flatMap((project) =>
      project.environments.map((environment) => ({
        label: `Switch to ${project.name} / ${environment.name}`,
        hint: "environment",
        go: () => choose(environment),
      })),
    );
    const starts = (may("runs:create") ? (tasks ?? []) : []).map(({ task_id }) => ({
      label: `Run ${task_id}`,
      hint: "task",
      go: () => navigate(`/tasks/${encodeURIComponent(task_id)}`),
    }));
    const theme = { label: "Change the theme", hint: "light, dark, system", go: nextTheme };
    return [...pages, ...starts, ...environments, theme].filter(({ label }) =>
      label.toLowerCase().includes(wanted),
    );
  }, [text, projects, tasks, may, choose, nextTheme]);
}

export function Palette({
  close,
  nextTheme,
}: {
  close(): void;
  nextTheme(): void;
}): ReactNode {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const choices = useChoices(text, nextTheme);
  const id = useId();
  const chosen = choices[Math.min(at, choices.length - 1)];
  const take = (choice: Choice | undefined): void => {
    if (!choice) return;
    close();
    choice.go();
  };
  return (
    <Dialog label="Go to" className="palette" close={close}>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-label="Where to"
        placeholder="Page, environment or id…"
        aria-activedescendant={chosen ? `${id}-${choices.indexOf(chosen)}` : undefined}
        autoFocus
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
          if (step !== 0) {
            event.preventDefault();
            setAt((at + step + choices.length) % Math.max(1, choices.length));
          } else if (event.key === "Enter") take(chosen);
        }}
      />
      <ul role="listbox" id={id} aria-label="Places">
        {choices.map((choice, i) => (
          <li
            key={choice.label}
            id={`${id}-${i}`}
            role="option"
            aria-selected={choice === chosen}
            ref={choice === chosen ? (one) => one?.scrollIntoView({ block: "nearest" }) : undefined}
            onClick={() => take(choice)}
            onMouseMove={() => setAt(i)}
          >
            <span>{choice.label}</span>
            <kbd>{choice.hint}</kbd>
          </li>
        ))}
      </ul>
      {choices.length === 0 && (
        <p className="dim">Nothing is called that. An id opens whatever has it.</p>
      )}
    </Dialog>
  );
}
