// Small pictures, drawn as strokes of the text's colour.
import type { ReactNode } from "react";

const strokes = {
  overview: "M3 3h7v9H3zM14 3h7v5h-7zM14 12h7v9h-7zM3 16h7v5H3z",
  approvals: "M3 13h5l2 3h4l2-3h5M5 5h14l2 8v6H3v-6zM9 8.5l2 2 4-4",
  runs: "M12 3a9 9 0 100 18 9 9 0 000-18zM10 8.5l5.5 3.5L10 15.5z",
  sessions: "M4 4h16v12H10l-4 4v-4H4zM8 9h8M8 12h5",
  workspaces: "M3 6h6l2 2h10v11H3zM3 11h18",
  tasks: "M4 6l1.5 1.5L8 5M4 12.5L5.5 14 8 11.5M4 19l1.5 1.5L8 18M11 6.5h9M11 13h9M11 19.5h9",
  deployments: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  schedules: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 7v5l3.5 2",
  workers: "M4 5h16v6H4zM4 13h16v6H4zM7 8h.5M7 16h.5M17 8h-5M17 16h-5",
  secrets: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 017 0v3M12 14.5v2.5",
  keys: "M8 8a4 4 0 100 8 4 4 0 000-8zM12 12h9v3.5M17.5 12v2.5",
  members: "M9 4.5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM3 20c0-3.5 2.5-5.5 6-5.5s6 2 6 5.5M16 5a3 3 0 010 6M18 14.5c2 .8 3 2.5 3 5.5",
  projects: "M12 3l9 5-9 5-9-5zM3 12.5l9 5 9-5M3 16.5l9 4.5 9-4.5",
  environments: "M12 3a9 9 0 100 18 9 9 0 000-18zM3 12h18M12 3c-5 6-5 12 0 18M12 3c5 6 5 12 0 18",
  audit: "M6 3h9l4 4v14H6zM15 3v4h4M9 12h7M9 16h7",
  search: "M10.5 4a6.5 6.5 0 100 13 6.5 6.5 0 000-13zM15.5 15.5L21 21",
  menu: "M4 6h16M4 12h16M4 18h16",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2.5M12 19.5V22M2 12h2.5M19.5 12H22M5 5l1.7 1.7M17.3 17.3L19 19M19 5l-1.7 1.7M6.7 17.3L5 19",
  moon: "M20 14.5A8.5 8.5 0 119.5 4a7 7 0 0010.5 10.5z",
  system: "M3 5h18v11H3zM9 20h6M12 16v4",
  help: "M12 3a9 9 0 100 18 9 9 0 000-18zM9.5 9.5a2.5 2.5 0 114 2c-1 .7-1.5 1.2-1.5 2.5M12 17v.01",
} as const;

export type IconName = keyof typeof strokes;

export function Icon({ name }: { name: IconName }): ReactNode {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={strokes[name]} />
    </svg>
  );
}
