// Terminals in a workspace's sandbox: each a tab, kept open when its page is left, taken up where it was.
import { useEffect, useRef, useState } from "react";
import type { KeyboardEvent, ReactNode } from "react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import type { PtyAttachment, WorkspaceHandle } from "@helmr/sdk";
import { useQuery } from "../app/query.ts";
import { useSearch } from "../app/router.tsx";
import { useScope } from "../app/scope.tsx";
import { Empty, useSubmit } from "./parts.tsx";
import { Trouble } from "./trouble.tsx";

const againMs = 1000;

/** As the page has them where the terminal stands. */
function colors(box: HTMLElement): { background: string; foreground: string; cursor: string } {
  const { backgroundColor, color, accentColor } = getComputedStyle(box);
  return { background: backgroundColor, foreground: color, cursor: accentColor };
}

function Screen({ workspace, ptyId }: { workspace: WorkspaceHandle; ptyId: string }): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const [said, setSaid] = useState("Connecting…");
  useEffect(() => {
    const terminal = new Terminal({
      theme: colors(box.current as HTMLElement),
      fontSize: 13,
      scrollback: 10_000,
      cursorBlink: true,
    });
    const fit = new FitAddon();
    const stop = new AbortController();
    let attachment: PtyAttachment | undefined;
    /* Typed while there is no connection; it is sent when there is. */
    let typed = "";
    terminal.loadAddon(fit);
    terminal.open(box.current as HTMLElement);
    fit.fit();
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(box.current as HTMLElement);
    const repaint = (): void => {
      terminal.options.theme = colors(box.current as HTMLElement);
    };
    const themes = new MutationObserver(repaint);
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", repaint);
    terminal.onData((data) => {
      if (attachment) attachment.write(data);
      else typed += data;
    });
    terminal.onResize(({ cols, rows }) => attachment?.resize(cols, rows));
    const follow = async (): Promise<void> => {
      const pty = workspace.pty.open(ptyId);
      for (let cursor = 0; !stop.signal.aborted;) {
        try {
          attachment = await pty.attach({ cursor, signal: stop.signal });
          setSaid("");
          attachment.resize(terminal.cols, terminal.rows);
          if (typed !== "") attachment.write(typed);
          typed = "";
          for await (const piece of attachment) terminal.write(piece);
          if (attachment.closed) return setSaid("The terminal has ended.");
        } catch {
          setSaid("Reconnecting…");
        }
        cursor = attachment?.cursor ?? cursor;
        attachment = undefined;
        await new Promise((resolve) => setTimeout(resolve, againMs));
      }
    };
    void follow();
    terminal.focus();
    return () => {
      stop.abort();
      attachment?.detach();
      watch.disconnect();
      themes.disconnect();
      dark.removeEventListener("change", repaint);
      terminal.dispose();
    };
  }, [workspace.id, ptyId]);
  return (
    <div className="terminal" role="tabpanel" aria-label="Terminal">
      <div className="screen" ref={box} />
      <p className="said-at dim" role="status">
        {said}
      </p>
    </div>
  );
}

/** Moves through the tabs as people expect of tabs: arrows, and the ends. */
function tabKey(event: KeyboardEvent<HTMLElement>): void {
  const tabs = [...event.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")];
  const at = tabs.indexOf(document.activeElement as HTMLElement);
  const steps: Record<string, number> = {
    ArrowLeft: at - 1,
    ArrowRight: at + 1,
    Home: 0,
    End: tabs.length - 1,
  };
  const to = steps[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const tab = tabs[(to + tabs.length) % tabs.length];
  tab?.focus();
  tab?.click();
}

export default function Terminals({ workspace }: { workspace: WorkspaceHandle }): ReactNode {
  const { place, may } = useScope();
  const [chosen, setChosen] = useSearch("terminal", "");
  const list = useQuery(
    `${place.environmentId} workspace ${workspace.id} ptys`,
    () => workspace.pty.list({ limit: 50 }),
    5000,
  );
  /* Oldest first: a tab keeps its place and its number when another is opened. */
  const open = (list.data ?? [])
    .filter(({ state }) => state === "starting" || state === "open")
    .toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  const shown = chosen || open[0]?.id;
  const create = useSubmit(async () => {
    const { id } = await workspace.pty.create({ cols: 120, rows: 32 });
    setChosen(id);
    list.refresh();
  });
  const close = useSubmit(async () => {
    if (shown) await workspace.pty.open(shown).close();
    setChosen("");
    list.refresh();
  });
  const error = create.error ?? close.error ?? list.error;
  /* Whoever attaches may also type. */
  const mayAttach = may("workspace-pty:manage");
  return (
    <>
      <div className="terminal-bar">
        <div
          className="terminal-tabs"
          role="tablist"
          aria-label="Terminals"
          onKeyDown={tabKey}
          hidden={open.length === 0}
        >
          {open.map((pty, i) => (
            <button
              key={pty.id}
              type="button"
              role="tab"
              aria-selected={pty.id === shown}
              tabIndex={pty.id === shown ? 0 : -1}
              onClick={() => setChosen(pty.id)}
            >
              Terminal {i + 1}
            </button>
          ))}
        </div>
        {may("workspace-pty:create") && (
          <button
            type="button"
            className={open.length === 0 ? "" : "quiet"}
            disabled={create.isBusy}
            onClick={() => create.submit()}
          >
            {create.isBusy ? "Opening…" : "New terminal"}
          </button>
        )}
        {shown && mayAttach && (
          <button type="button" className="quiet" onClick={() => close.submit()}>
            Close this one
          </button>
        )}
      </div>
      {error && <Trouble error={error} />}
      {shown && mayAttach && <Screen key={shown} workspace={workspace} ptyId={shown} />}
      {shown && !mayAttach && (
        <Empty title="Your role may not use terminals">They are there, and somebody's.</Empty>
      )}
      {!shown && list.data && (
        <Empty title="No terminal is open" command={`helmr workspace shell ${workspace.id}`}>
          A terminal starts the workspace's sandbox, and stays open when you leave the page.
        </Empty>
      )}
    </>
  );
}
