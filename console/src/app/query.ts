// What the server said, kept by name: shown at once when a page comes back, asked again when something changed.
import { useEffect, useReducer } from "react";
import { AuthError } from "@helmr/sdk";

interface Entry {
  value: unknown;
  error: Error | undefined;
  hasValue: boolean;
  asking: Promise<void> | undefined;
  isStale: boolean;
  ask(): Promise<unknown>;
  readers: Set<() => void>;
}

const entries = new Map<string, Entry>();
const keptEntries = 200;
const againMs = 1000;

function entryOf(name: string, ask: () => Promise<unknown>): Entry {
  let entry = entries.get(name);
  if (!entry) {
    entry = {
      value: undefined,
      error: undefined,
      hasValue: false,
      asking: undefined,
      isStale: true,
      ask,
      readers: new Set(),
    };
    entries.set(name, entry);
    for (const [old, { readers }] of entries) {
      if (entries.size <= keptEntries) break;
      if (readers.size === 0 && old !== name) entries.delete(old);
    }
  }
  entry.ask = ask;
  return entry;
}

const tell = (entry: Entry): void => entry.readers.forEach((reader) => reader());

async function load(entry: Entry): Promise<void> {
  entry.isStale = false;
  try {
    entry.value = await entry.ask();
    entry.hasValue = true;
    entry.error = undefined;
  } catch (error) {
    if (error instanceof AuthError) {
      location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
      return;
    }
    entry.error = error as Error;
    /* The server was not reached; nobody will say when it can be. */
    if (error instanceof TypeError)
      setTimeout(() => {
        if (entry.readers.size > 0) ask(entry);
      }, againMs);
  }
  entry.asking = undefined;
  tell(entry);
  if (entry.isStale && entry.readers.size > 0) ask(entry);
}

/** One question at a time: a change that comes meanwhile is asked about afterwards. */
function ask(entry: Entry): void {
  entry.isStale = true;
  entry.asking ??= load(entry);
}

/** Everything on the page is asked for again, and the rest when it is looked at. */
export function refreshAll(prefix = ""): void {
  for (const [name, entry] of entries) {
    if (!name.startsWith(prefix)) continue;
    entry.isStale = true;
    if (entry.readers.size > 0) ask(entry);
  }
}

export interface Query<T> {
  data: T | undefined;
  error: Error | undefined;
  isLoading: boolean;
  refresh(): void;
}

/** `name` says what is asked for, all of it; undefined asks for nothing. */
export function useQuery<T>(
  name: string | undefined,
  fetch: () => Promise<T>,
  everyMs?: number,
): Query<T> {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const entry = name === undefined ? undefined : entryOf(name, fetch);
  useEffect(() => {
    if (!entry) return;
    entry.readers.add(redraw);
    if (entry.isStale) ask(entry);
    const timer = everyMs === undefined ? undefined : setInterval(() => ask(entry), everyMs);
    return () => {
      entry.readers.delete(redraw);
      clearInterval(timer);
    };
  }, [entry, everyMs]);
  return {
    data: entry?.value as T | undefined,
    error: entry?.error,
    isLoading: entry !== undefined && !entry.hasValue && entry.error === undefined,
    refresh: () => entry && ask(entry),
  };
}
