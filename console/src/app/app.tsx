// The table of pages, and the frame they stand in.
import { lazy, useEffect } from "react";
import type { ComponentType, ReactNode } from "react";
import { Empty } from "../ui/parts.tsx";
import { LiveProvider } from "./live.tsx";
import { Link, Routes } from "./router.tsx";
import type { Route } from "./router.tsx";
import { ScopeProvider } from "./scope.tsx";
import { Shell } from "./shell.tsx";

const loads: (() => Promise<unknown>)[] = [];

function page(pattern: string, load: () => Promise<{ default: ComponentType }>): Route {
  loads.push(load);
  return { pattern, page: lazy(load) };
}

const pages: Route[] = [
  page("/", () => import("../pages/overview.tsx")),
  page("/runs", () => import("../pages/runs.tsx")),
  page("/runs/:run", () => import("../pages/run.tsx")),
  page("/approvals", () => import("../pages/approvals.tsx")),
  page("/sessions", () => import("../pages/sessions.tsx")),
  page("/sessions/:session", () => import("../pages/session.tsx")),
  page("/workspaces", () => import("../pages/workspaces.tsx")),
  page("/workspaces/:workspace", () => import("../pages/workspace.tsx")),
  page("/tasks", () => import("../pages/tasks.tsx")),
  page("/tasks/:task", () => import("../pages/task.tsx")),
  page("/deployments", () => import("../pages/deployments.tsx")),
  page("/deployments/:deployment", () => import("../pages/deployment.tsx")),
  page("/schedules", () => import("../pages/schedules.tsx")),
  page("/settings/workers", () => import("../pages/settings/workers.tsx")),
  page("/settings/secrets", () => import("../pages/settings/secrets.tsx")),
  page("/settings/api-keys", () => import("../pages/settings/api_keys.tsx")),
  page("/settings/members", () => import("../pages/settings/members.tsx")),
  page("/settings/projects", () => import("../pages/settings/projects.tsx")),
  page("/settings/environments", () => import("../pages/settings/environments.tsx")),
  page("/settings/audit", () => import("../pages/settings/audit.tsx")),
];

/** Once nothing else is to be done, the other pages come, too: they are then there at once, also without a network. */
function loadAll(): void {
  for (const load of loads) load().catch(() => undefined);
}

export function App(): ReactNode {
  useEffect(() => {
    const timer = setTimeout(loadAll, 1000);
    return () => clearTimeout(timer);
  }, []);
  return (
    <ScopeProvider>
      <LiveProvider>
        <Shell>
          <Routes
            table={pages}
            lost={
              <Empty title="There is no such page">
                <Link href="/">Back to the overview</Link>
              </Empty>
            }
          />
        </Shell>
      </LiveProvider>
    </ScopeProvider>
  );
}
