// The table of pages, and the frame they stand in.
import { lazy } from "react";
import type { ReactNode } from "react";
import { Empty } from "../ui/parts.tsx";
import { LiveProvider } from "./live.tsx";
import { Link, Routes } from "./router.tsx";
import type { Route } from "./router.tsx";
import { ScopeProvider } from "./scope.tsx";
import { Shell } from "./shell.tsx";

const pages: Route[] = [
  { pattern: "/", page: lazy(() => import("../pages/overview.tsx")) },
  { pattern: "/runs", page: lazy(() => import("../pages/runs.tsx")) },
  { pattern: "/runs/:run", page: lazy(() => import("../pages/run.tsx")) },
  { pattern: "/approvals", page: lazy(() => import("../pages/approvals.tsx")) },
  { pattern: "/sessions", page: lazy(() => import("../pages/sessions.tsx")) },
  { pattern: "/sessions/:session", page: lazy(() => import("../pages/session.tsx")) },
  { pattern: "/workspaces", page: lazy(() => import("../pages/workspaces.tsx")) },
  { pattern: "/workspaces/:workspace", page: lazy(() => import("../pages/workspace.tsx")) },
  { pattern: "/tasks", page: lazy(() => import("../pages/tasks.tsx")) },
  { pattern: "/tasks/:task", page: lazy(() => import("../pages/task.tsx")) },
  { pattern: "/deployments", page: lazy(() => import("../pages/deployments.tsx")) },
  { pattern: "/deployments/:deployment", page: lazy(() => import("../pages/deployment.tsx")) },
  { pattern: "/schedules", page: lazy(() => import("../pages/schedules.tsx")) },
  { pattern: "/settings/workers", page: lazy(() => import("../pages/settings/workers.tsx")) },
  { pattern: "/settings/secrets", page: lazy(() => import("../pages/settings/secrets.tsx")) },
  { pattern: "/settings/api-keys", page: lazy(() => import("../pages/settings/api_keys.tsx")) },
  { pattern: "/settings/members", page: lazy(() => import("../pages/settings/members.tsx")) },
  { pattern: "/settings/projects", page: lazy(() => import("../pages/settings/projects.tsx")) },
  {
    pattern: "/settings/environments",
    page: lazy(() => import("../pages/settings/environments.tsx")),
  },
  { pattern: "/settings/audit", page: lazy(() => import("../pages/settings/audit.tsx")) },
];

export function App(): ReactNode {
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
