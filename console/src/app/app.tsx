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
