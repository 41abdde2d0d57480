// Who is here and what they look at: the person, their project and environment.
import { createContext, use, useState } from "react";
import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { Place } from "../api/client.ts";
import type { Environment, Me, Project } from "../api/types.ts";
import { Trouble } from "../ui/trouble.tsx";
import { useQuery } from "./query.ts";

interface Scope {
  me: Me;
  projects: Project[];
  project: Project;
  environment: Environment;
  place: Place;
  choose(environment: Environment): void;
  /** Whether the person's role allows it; the server asks again. */
  may(permission: string): boolean;
}

const ScopeContext = createContext<Scope | undefined>(undefined);
const remembered = "helmr.environment";

function find(projects: Project[], id: string | null): [Project, Environment] | undefined {
  for (const project of projects)
    for (const environment of project.environments)
      if (id === null ? project.is_default && environment.is_default : environment.id === id)
        return [project, environment];
  return undefined;
}

export function ScopeProvider({ children }: { children: ReactNode }): ReactNode {
  const me = useQuery("me", () => get<Me>("/me"));
  const projects = useQuery("projects", () => get<{ projects: Project[] }>("/projects"));
  const [chosen, setChosen] = useState(() => localStorage.getItem(remembered));
  const error = me.error ?? projects.error;
  if (error)
    return (
      <main className="alone">
        <Trouble
          error={error}
          retry={() => {
            me.refresh();
            projects.refresh();
          }}
        />
      </main>
    );
  if (!me.data || !projects.data) return null;
  const found = find(projects.data.projects, chosen) ?? find(projects.data.projects, null);
  if (!found)
    return (
      <main className="alone">
        <p>
          There is no project. Make one: <code>helmr project create NAME</code>
        </p>
      </main>
    );
  const [project, environment] = found;
  const permissions = new Set(me.data.permissions);
  const scope: Scope = {
    me: me.data,
    projects: projects.data.projects,
    project,
    environment,
    place: { projectId: project.id, environmentId: environment.id },
    choose: ({ id }) => {
      localStorage.setItem(remembered, id);
      setChosen(id);
    },
    may: (permission) => permissions.has(permission),
  };
  return <ScopeContext value={scope}>{children}</ScopeContext>;
}

export function useScope(): Scope {
  const scope = use(ScopeContext);
  if (!scope) throw new Error("outside of a scope");
  return scope;
}

/** An object of the environment by its path after /api. */
export function useScoped<T>(
  path: string | undefined,
  query: Record<string, string | number | undefined> = {},
) {
  const { place } = useScope();
  const words = Object.entries(query)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${value}`);
  const name = path === undefined ? undefined : `${place.environmentId} ${path}?${words.join("&")}`;
  return useQuery(name, () => get<T>(path as string, { ...place, query }));
}
