// Where one can go: the navigation, the palette and the keyboard use the same table.
export interface Destination {
  href: string;
  label: string;
  /** After "g". */
  key?: string;
  /** Only for those who may. */
  needs?: string;
}

export const work: Destination[] = [
  { href: "/", label: "Overview", key: "o" },
  { href: "/approvals", label: "Approvals", key: "a" },
  { href: "/runs", label: "Runs", key: "r" },
  { href: "/sessions", label: "Sessions", key: "s" },
  { href: "/workspaces", label: "Workspaces", key: "w" },
  { href: "/tasks", label: "Tasks", key: "t" },
  { href: "/deployments", label: "Deployments", key: "d" },
  { href: "/schedules", label: "Schedules", key: "c" },
];

export const settings: Destination[] = [
  { href: "/settings/workers", label: "Workers" },
  { href: "/settings/secrets", label: "Secrets", needs: "secrets:write" },
  { href: "/settings/api-keys", label: "API keys", needs: "api-keys:manage" },
  { href: "/settings/members", label: "Members", needs: "members:manage" },
  { href: "/settings/projects", label: "Projects", needs: "projects:manage" },
  { href: "/settings/environments", label: "Environments", needs: "projects:manage" },
  { href: "/settings/audit", label: "Audit log", needs: "audit:read" },
];
