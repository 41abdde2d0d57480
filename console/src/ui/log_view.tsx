// A log of any length: only the lines one sees are on the page.
import {
  memo,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import type { ReactNode } from "react";
import { navigate, useAddress } from "../app/router.tsx";
import { withoutAnsi } from "./ansi.ts";
import { AnsiText } from "./ansi_text.tsx";
import type { LogLines } from "./log_lines.ts";

const rowPx = 20;
const beyond = 20;
/* Browsers stop at about this height; longer logs are scrolled by proportion. */
const tallestPx = 8_000_000;
/* So many lines are looked through before the page may draw again. */
const searchStep = 50_000;

/** Which lines contain the text; goes on by itself as lines come. */
function useMatches(log: LogLines, version: number, text: string): number[] {
  const [found, setFound] = useState<{ text: string; upTo: number; lines: number[] }>({
    text: "",
    upTo: 0,
    lines: [],
  });
  const wanted = text.toLowerCase();
  const current = found.text === wanted ? found : { text: wanted, upTo: 0, lines: [] };
  useEffect(() => {
    if (wanted === "" || current.upTo >= log.lines.length) return;
    const timer = setTimeout(() => {
      const upTo = Math.min(log.lines.length, current.upTo + searchStep);
      const lines = [...current.lines];
      for (let i = current.upTo; i < upTo; i++)
        if (
          withoutAnsi(log.lines[i]?.text ?? "")
            .toLowerCase()
            .includes(wanted)
        )
          lines.push(i);
      setFound({ text: wanted, upTo, lines });
    });
    return () => clearTimeout(timer);
  });
  void version;
  return wanted === "" ? [] : current.lines;
}

const LineText = memo(function LineText({
  text,
  wanted,
}: {
  text: string;
  wanted: string;
}): ReactNode {
  const clean = wanted === "" ? "" : withoutAnsi(text);
  if (wanted !== "" && clean.toLowerCase().includes(wanted)) {
    const out: ReactNode[] = [];
    let at = 0;
    for (
      let next = clean.toLowerCase().indexOf(wanted);
      next >= 0;
      next = clean.toLowerCase().indexOf(wanted, at)
    ) {
      out.push(
        clean.slice(at, next),
        <mark key={next}>{clean.slice(next, next + wanted.length)}</mark>,
      );
      at = next + wanted.length;
    }
    return [...out, clean.slice(at)];
  }
  return <AnsiText text={text} />;
});

function download(log: LogLines, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob(
      log.lines.map(({ text }) => `${text}\n`),
      { type: "text/plain" },
    ),
  );
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function LogView({
  log,
  name,
  isLive,
}: {
  log: LogLines;
  name: string;
  isLive: boolean;
}): ReactNode {
  const version = useSyncExternalStore(log.subscribe, log.version);
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const [isFollowing, setFollowing] = useState(isLive);
  const [text, setText] = useState("");
  const [shown, setShown] = useState<"all" | "stdout" | "stderr">("all");
  const [at, setAt] = useState(0);
  const { hash } = useAddress();
  const marked = /^#L(\d+)$/.test(hash) ? Number(hash.slice(2)) - 1 : -1;
  const lines = useMemo(
    () =>
      shown === "all"
        ? undefined
        : log.lines.flatMap((line, i) => (line.isError === (shown === "stderr") ? [i] : [])),
    [log, shown, version],
  );
  const matches = useMatches(log, version, text);
  const count = lines ? lines.length : log.lines.length;
  const full = count * rowPx;
  const tall = Math.min(full, tallestPx);
  const scale = full > tall ? (full - view.height) / Math.max(1, tall - view.height) : 1;
  const first = Math.max(0, Math.floor((view.top * scale) / rowPx) - beyond);
  const last = Math.min(count, Math.ceil((view.top * scale + view.height) / rowPx) + beyond);
  const goTo = (line: number): void => {
    setFollowing(false);
    const index = lines ? lines.findIndex((one) => one >= line) : line;
    box.current?.scrollTo({ top: Math.max(0, (index * rowPx - view.height / 2) / scale) });
  };
  useLayoutEffect(() => {
    if (isFollowing) box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [isFollowing, version, count]);
  const hasMarked = marked >= 0 && marked < log.lines.length;
  useEffect(() => {
    if (hasMarked) goTo(marked);
  }, [hasMarked, marked]);
  const rows: ReactNode[] = [];
  for (let i = first; i < last; i++) {
    const number = lines ? (lines[i] as number) : i;
    const line = log.lines[number];
    if (!line) continue;
    rows.push(
      <div
        key={number}
        className={`row${line.isError ? " is-error" : ""}${number === marked ? " is-marked" : ""}`}
        style={{ top: view.top - (view.top * scale - i * rowPx) }}
      >
        <a
          href={`#L${number + 1}`}
          aria-label={`Line ${number + 1}`}
          onClick={(event) => {
            event.preventDefault();
            navigate(`${location.pathname}${location.search}#L${number + 1}`, { replace: true });
          }}
        >
          {number + 1}
        </a>
        <span>
          <LineText text={line.text} wanted={text.toLowerCase()} />
        </span>
      </div>,
    );
  }
  return (
    <div className="log">
      <div className="log-bar">
        <input
          type="search"
          aria-label="Search in the log"
          placeholder="Search…"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || matches.length === 0) return;
            const next = (at + (event.shiftKey ? -1 : 1) + matches.length) % matches.length;
            setAt(next);
            goTo(matches[next] as number);
          }}
        />
        {text !== "" && (
          <span className="dim" role="status">
            {matches.length === 0
              ? "nothing found"
              : `${Math.min(at + 1, matches.length)} of ${matches.length}`}
          </span>
        )}
        <select
          aria-label="Stream"
          value={shown}
          onChange={(event) => setShown(event.target.value as typeof shown)}
        >
          <option value="all">both streams</option>
          <option>stdout</option>
          <option>stderr</option>
        </select>
        <label>
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.target.checked)}
          />{" "}
          Follow
        </label>
        <span className="dim">{count.toLocaleString("en")} lines</span>
        <button type="button" className="quiet" onClick={() => download(log, name)}>
          Download
        </button>
      </div>
      <div
        className="log-box"
        ref={box}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Output"
        onScroll={(event) => {
          const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
          setView({ top: scrollTop, height: clientHeight });
          if (isFollowing && scrollTop + clientHeight < scrollHeight - 4 * rowPx)
            setFollowing(false);
        }}
      >
        <div className="log-all" style={{ height: tall }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
