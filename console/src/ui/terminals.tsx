// Terminals in a workspace's sandbox: each a tab, kept open when its page is left, taken up where it was.
import { useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import type { PtyAttachment, WorkspaceHandle } from "@helmr/sdk";
import { useQuery } from "../app/query.ts";
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
      terminal.dispose();
    };
  }, [workspace.id, ptyId]);
  return (
    <>
      <p className="dim" role="status">
        {said}
      </p>
      <div className="screen" ref={box} />
    </>
  );
}

export default function Terminals({ workspace }: { workspace: WorkspaceHandle }): ReactNode {
  const { place, may } = useScope();
  const [chosen, setChosen] = useState<string>();
  const list = useQuery(
    `${place.environmentId} workspace ${workspace.id} ptys`,
    () => workspace.pty.list({ limit: 50 }),
    5000,
  );
  const open = (list.data ?? []).filter(({ state }) => state === "starting" || state === "open");
  const shown = chosen ?? open[0]?.id;
  const create = useSubmit(async () => {
    const { id } = await workspace.pty.create({ cols: 120, rows: 32 });
    setChosen(id);
    list.refresh();
  });
  const close = useSubmit(async () => {
    if (shown) await workspace.pty.open(shown).close();
    setChosen(undefined);
    list.refresh();
  });
  const error = create.error ?? close.error ?? list.error;
  return (
    <>
      <div className="filters">
        {open.map((pty, i) => (
          <button
            key={pty.id}
            type="button"
            className="quiet"
            aria-pressed={pty.id === shown}
            onClick={() => setChosen(pty.id)}
          >
            Terminal {i + 1}
          </button>
        ))}
        {may("workspace-pty:create") && (
          <button type="button" disabled={create.isBusy} onClick={() => create.submit()}>
            {create.isBusy ? "Opening…" : "New terminal"}
          </button>
        )}
        {shown && may("workspace-pty:manage") && (
          <button type="button" className="quiet" onClick={() => close.submit()}>
            Close this one
          </button>
        )}
      </div>
      {error && <Trouble error={error} />}
      {shown ? (
        <Screen key={shown} workspace={workspace} ptyId={shown} />
      ) : (
        <Empty title="No terminal is open" command={`helmr workspace shell ${workspace.id}`} />
      )}
    </>
  );
}
