// A list of runs that grows at its end as one scrolls, while its beginning and what is on the screen stay current.
import { useEffect, useRef, useState } from "react";
import { get } from "../api/client.ts";
import type { Run } from "../api/types.ts";
import { useScope, useScoped } from "./scope.tsx";

interface Page {
  runs: Run[];
  next_cursor?: string | null;
}

interface Known {
  name: string;
  /** Newest first, without a gap. */
  runs: Run[];
  /** Where the pages after the first begin: what asks for one, and the newest run on it. */
  pages: { cursor: string; newest: string }[];
  next: string | null;
}

const pageSize = 200;
const keyOf = (known: Run | undefined): string => known?.id ?? "";

/** What a page says holds from its newest run, or `from`, to its oldest; without an older page, to the end. */
function merge(known: Run[], page: Page, from: string): Run[] {
  const oldest = page.next_cursor ? keyOf(page.runs.at(-1)) : "";
  const above = known.filter(({ id }) => id > from);
  return [...above, ...page.runs, ...known.filter(({ id }) => id < oldest)];
}

function withFirst(before: Known | undefined, page: Page, name: string): Known {
  const next = page.next_cursor ?? null;
  const ids = new Set(page.runs.map(({ id }) => id));
  /* So many came that those between are not known: from the beginning. */
  if (before?.name !== name || !before.runs.some(({ id }) => ids.has(id)))
    return { name, runs: page.runs, pages: [], next };
  const hasOlder = next !== null && keyOf(before.runs.at(-1)) < keyOf(page.runs.at(-1));
  return {
    name,
    runs: merge(before.runs, page, "~"),
    pages: hasOlder ? before.pages : [],
    next: hasOlder ? before.next : next,
  };
}

function withOlder(before: Known, page: Page, cursor: string): Known {
  const newest = keyOf(page.runs[0]);
  const isNew = before.next === cursor;
  const known = before.pages.find((one) => one.cursor === cursor);
  return {
    ...before,
    runs: merge(before.runs, page, known?.newest ?? newest),
    pages: isNew ? [...before.pages, { cursor, newest }] : before.pages,
    next: isNew ? (page.next_cursor ?? null) : before.next,
  };
}

export interface RunPages {
  runs: Run[];
  isLoaded: boolean;
  /** Older ones are there that were not asked for yet. */
  hasMore: boolean;
  error: Error | undefined;
  more(): void;
  retry(): void;
  refresh(): void;
}

/** `onScreen` is the newest run that one sees. */
export function useRunPages(
  query: Record<string, string>,
  onScreen: { readonly current: string },
): RunPages {
  const { place } = useScope();
  const name = JSON.stringify([place, query]);
  const first = useScoped<Page>("/runs", { ...query, limit: pageSize });
  const [state, setState] = useState<Known>();
  const [error, setError] = useState<Error>();
  const asking = useRef("");
  const mine = state?.name === name ? state : undefined;

  const ask = (cursor: string): void => {
    if (asking.current !== "") return;
    asking.current = cursor;
    setError(undefined);
    get<Page>("/runs", { ...place, query: { ...query, limit: pageSize, cursor } })
      .then((page) =>
        setState((before) => (before?.name === name ? withOlder(before, page, cursor) : before)),
      )
      .catch(setError)
      .finally(() => (asking.current = ""));
  };

  useEffect(() => {
    if (!first.data) return;
    const page = first.data;
    setState((before) => withFirst(before, page, name));
    const seen = mine?.pages.findLast(({ newest }) => newest >= onScreen.current);
    if (seen && onScreen.current !== "") ask(seen.cursor);
  }, [first.data, name]);

  const more = (): void => {
    if (mine?.next) ask(mine.next);
  };
  return {
    runs: mine?.runs ?? [],
    isLoaded: mine !== undefined,
    hasMore: Boolean(mine?.next),
    error: first.error ?? error,
    more,
    retry: error ? more : first.refresh,
    refresh: first.refresh,
  };
}
