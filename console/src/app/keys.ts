// The keyboard of the whole console: every part says which keys it knows, and what is pressed goes to one of them.
import { useEffect, useRef } from "react";

export interface Key {
  /** What is pressed: "j", or "g a" one after the other. */
  keys: string;
  /** What it does, for the list of keys. */
  words: string;
  act(): void;
}

type Table = { readonly current: Key[] };
const tables: Table[] = [];
let before = "";

export const knownKeys = (): Key[] => tables.flatMap(({ current }) => current);

function isElsewhere(event: KeyboardEvent): boolean {
  const field = "input,textarea,select,[contenteditable],.xterm,dialog";
  return (
    event.metaKey ||
    event.ctrlKey ||
    event.altKey ||
    (event.target instanceof HTMLElement && event.target.closest(field) !== null)
  );
}

function press(event: KeyboardEvent): void {
  const pressed = before + event.key;
  before = "";
  if (isElsewhere(event)) return;
  const known = knownKeys();
  /* The page's own come after those of the frame, and win. */
  const key = known.findLast(({ keys }) => keys === pressed);
  if (!key && !known.some(({ keys }) => keys.startsWith(`${pressed} `))) return;
  event.preventDefault();
  if (key) key.act();
  else before = `${pressed} `;
}

/** As long as the part is on the page. */
export function useKeys(keys: Key[]): void {
  const table = useRef(keys);
  table.current = keys;
  useEffect(() => {
    if (tables.push(table) === 1) window.addEventListener("keydown", press);
    return () => {
      tables.splice(tables.indexOf(table), 1);
      if (tables.length === 0) window.removeEventListener("keydown", press);
    };
  }, []);
}
