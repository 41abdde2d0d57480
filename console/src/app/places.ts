// Where one can go: the navigation, the palette and the keyboard use the same table.
import type { IconName } from "../ui/icon.tsx";

export interface Destination {
  href: string;
  label: string;
  icon: IconName;
  /** After "g". */
  key?: string;
  /** Only for those who may. */
  needs?: string;
}

export const work: Destination[] = [
  { href: "/", label: "Overview", icon: "overview", key: "o" },
  { href: "/approvals", label: "Approvals", icon: "approvals", key: "a" },
  { href: "/runs", label: "Runs", icon: "runs", key: "r" },
  { href: "/sessions", label: "Sessions", icon: "sessions", key: "s" },
  { href: "/workspaces", label: "Workspaces", icon: "workspaces", key: "w" },
  { href: "/tasks", label: "Tasks", icon: "tasks", key: "t" },
  { href: "/deployments", label: "Deployments", icon: "deployments", key: "d" },
  { href: "/schedules", label: "Schedules", icon: "schedules", key: "c" },
];

export const settings: Destination[] = [
  { href: "/settings/workers", label: "Workers", icon: "workers" },
  { href: "/settings/secrets", label: "Secrets", icon: "secrets", needs: "secrets:write" },
  { href: "/settings/api-keys", label: "API keys", icon: "keys", needs: "api-keys:manage" },
  { href: "/settings/members", label: "Members", icon: "members", needs: "members:manage" },
  { href: "/settings/projects", label: "Projects", icon: "projects", needs: "projects:manage" },
  {
    href: "/settings/environments",
    label: "Environments",
    icon: "environments",
    needs: "projects:manage",
  },
  { href: "/settings/audit", label: "Audit log", icon: "audit", needs: "audit:read" },
];
