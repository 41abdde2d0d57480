// The frame of every page: where one is, where one can go, and whether what is shown is live.
import { useCallback, useEffect, useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/client.ts";
import type { Counts } from "../api/types.ts";
import { Icon } from "../ui/icon.tsx";
import { Help } from "./help.tsx";
import { useKeys } from "./keys.ts";
import { useConnection } from "./live.tsx";
import { Palette } from "./palette.tsx";
import { settings, work } from "./places.ts";
import type { Destination } from "./places.ts";
import { Link, navigate, useAddress } from "./router.tsx";
import { useScope, useScoped } from "./scope.tsx";
import { useTheme } from "./theme.ts";

const themeIcons = { light: "sun", dark: "moon", system: "system" } as const;
const connectionWords = { connecting: "Connecting…", live: "Live", lost: "Reconnecting…" };

/** "g" and a letter goes places, "/" asks where, and Ctrl+K does so even where one types. */
function useFrameKeys(openPalette: () => void, openHelp: () => void): void {
  useKeys([
    ...work.map(({ key, label, href }) => ({
      keys: `g ${key}`,
      words: label,
      act: () => navigate(href),
    })),
    { keys: "/", words: "go anywhere", act: openPalette },
    { keys: "?", words: "these keys", act: openHelp },
  ]);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.metaKey || event.ctrlKey)) return;
      event.preventDefault();
      openPalette();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [openPalette]);
}

/** What is shown is from before: since when, and that it goes on by itself. */
function Lost(): ReactNode {
  const [since] = useState(() => new Date());
  return (
    <p className="lost" role="status">
      <strong>The server cannot be reached.</strong> What you see is from{" "}
      {since.toLocaleTimeString()}; this page goes on by itself once it answers.
    </p>
  );
}

function Scopes(): ReactNode {
  const { projects, environment, choose } = useScope();
  return (
    <label className="scopes">
      <i
        aria-hidden="true"
        ref={(dot) => dot?.style.setProperty("--environment", environment.color_hex)}
      />
      <span className="hidden">Project and environment</span>
      <select
        value={environment.id}
        onChange={(event) => {
          const found = projects
            .flatMap(({ environments }) => environments)
            .find(({ id }) => id === event.target.value);
          if (found) choose(found);
        }}
      >
        {projects.map((project) => (
          <optgroup key={project.id} label={project.name}>
            {project.environments.map(({ id, name }) => (
              <option key={id} value={id}>
                {project.name} / {name}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

function Places({
  table,
  badges,
}: {
  table: Destination[];
  badges?: Record<string, number | undefined>;
}): ReactNode {
  const { pathname } = useAddress();
  const { may } = useScope();
  return (
    <ul>
      {table
        .filter(({ needs }) => needs === undefined || may(needs))
        .map(({ href, label, icon }) => {
          const isHere =
            href === "/" ? pathname === "/" : pathname === href || pathname.startsWith(`${href}/`);
          const badge = badges?.[href];
          return (
            <li key={href}>
              <Link href={href} aria-current={isHere ? "page" : undefined}>
                <Icon name={icon} />
                {label}
                {badge ? <b className="badge">{badge}</b> : null}
              </Link>
            </li>
          );
        })}
    </ul>
  );
}

export function Shell({ children }: { children: ReactNode }): ReactNode {
  const [opened, open] = useState<"palette" | "help">();
  const [isOpen, setOpen] = useState(false);
  const [theme, nextTheme] = useTheme();
  const { me, environment } = useScope();
  const connection = useConnection();
  const counts = useScoped<Counts>("/runs/counts");
  const { pathname } = useAddress();
  const openPalette = useCallback(() => open("palette"), []);
  useFrameKeys(openPalette, () => open("help"));
  useEffect(() => setOpen(false), [pathname]);
  return (
    <div
      className="shell"
      ref={(frame) => frame?.style.setProperty("--environment", environment.color_hex)}
    >
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <nav aria-label="Main" className={isOpen ? "is-open" : ""}>
        <Link href="/" className="brand">
          <img src="/favicon.svg" alt="" width="22" height="22" />
          Helmr
        </Link>
        <Places
          table={work}
          badges={{ "/approvals": counts.data?.waiting, "/runs": counts.data?.running }}
        />
        <h2>Settings</h2>
        <Places table={settings} />
        <div className="person">
          <span title={me.user?.email}>{me.user?.display_name || me.user?.email}</span>
          <button
            type="button"
            className="quiet"
            onClick={() =>
              void send("POST", "/auth/logout", {}).finally(() => location.assign("/login"))
            }
          >
            Sign out
          </button>
        </div>
      </nav>
      <header className="bar">
        <button
          type="button"
          className="menu quiet"
          aria-expanded={isOpen}
          aria-label="Menu"
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="menu" />
        </button>
        <Scopes />
        <span className={`connection is-${connection}`} role="status">
          <i aria-hidden="true" />
          {connectionWords[connection]}
        </span>
        <button type="button" className="search quiet" onClick={openPalette}>
          <Icon name="search" />
          <span>Search</span> <kbd>Ctrl K</kbd>
        </button>
        <button
          type="button"
          className="quiet keys"
          aria-label="Keys"
          title="Keys: ?"
          onClick={() => open("help")}
        >
          <Icon name="help" />
        </button>
        <button
          type="button"
          className="quiet"
          onClick={nextTheme}
          aria-label={`Theme: ${theme}`}
          title={`Theme: ${theme}`}
        >
          <Icon name={themeIcons[theme]} />
        </button>
      </header>
      <main id="content" tabIndex={-1}>
        {connection === "lost" && <Lost />}
        {children}
      </main>
      {opened === "palette" && <Palette close={() => open(undefined)} nextTheme={nextTheme} />}
      {opened === "help" && <Help close={() => open(undefined)} />}
    </div>
  );
}
