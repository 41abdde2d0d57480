// A log of any length: only the lines one sees are on the page.
import {
  memo,
  useEffect,
  useLayoutEffect,
  useReducer,
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
/* So long lines are looked through before the page may draw again. */
const searchMs = 8;
const searchStep = 1000;

interface Found {
  log: LogLines;
  text: string;
  upTo: number;
  lines: number[];
}

/** Looks through what was not looked through yet, for a moment. */
function searchOn(found: Found): void {
  const all = found.log.lines;
  for (const end = performance.now() + searchMs; performance.now() < end; ) {
    const upTo = Math.min(all.length, found.upTo + searchStep);
    for (; found.upTo < upTo; found.upTo++)
      if (
        withoutAnsi(all[found.upTo]?.text ?? "")
          .toLowerCase()
          .includes(found.text)
      )
        found.lines.push(found.upTo);
    if (upTo === all.length) return;
  }
}

/** Which lines contain the text; goes on by itself as lines come. `isDone` when all were looked through. */
function useMatches(log: LogLines, text: string): { lines: number[]; isDone: boolean } {
  const wanted = text.toLowerCase();
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const found = useRef<Found>({ log, text: wanted, upTo: 0, lines: [] });
  if (found.current.text !== wanted || found.current.log !== log)
    found.current = { log, text: wanted, upTo: 0, lines: [] };
  const { current } = found;
  const isDone = wanted === "" || current.upTo >= log.lines.length;
  useEffect(() => {
    if (isDone) return;
    const timer = setTimeout(() => {
      searchOn(current);
      redraw();
    });
    return () => clearTimeout(timer);
  });
  return { lines: current.lines, isDone };
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
  const lines = shown === "all" ? undefined : log.of[shown];
  const { lines: matches, isDone } = useMatches(log, text);
  const count = lines ? lines.length : log.lines.length;
  const full = count * rowPx;
  const tall = Math.min(full, tallestPx);
  const scale = full > tall ? (full - view.height) / Math.max(1, tall - view.height) : 1;
  /* Nobody scrolls a page that scrolls itself. */
  const more = isFollowing ? 1 : beyond;
  const first = Math.max(0, Math.floor((view.top * scale) / rowPx) - more);
  const last = Math.min(count, Math.ceil((view.top * scale + view.height) / rowPx) + more);
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
        key={i - first}
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
          <LineText text={(line.carried ?? "") + line.text} wanted={text.toLowerCase()} />
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
            {matches.length > 0
              ? `${Math.min(at + 1, matches.length)} of ${matches.length.toLocaleString("en")}`
              : isDone
                ? "nothing found"
                : "searching…"}
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
          /* Lines may have come since: only who goes up does not follow any more, and whoever comes back does. */
          const isUp = scrollTop < view.top;
          const isAtEnd = scrollTop + clientHeight > scrollHeight - 2 * rowPx;
          setView({ top: scrollTop, height: clientHeight });
          if (isUp && !isAtEnd) setFollowing(false);
          else if (isLive && isAtEnd) setFollowing(true);
        }}
      >
        <div className="log-all" style={{ height: tall }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
