// Addresses of the console: a table of patterns, links that do not reload, and what the address says.
import { Suspense, createContext, use, useEffect, useState, useSyncExternalStore } from "react";
import type { AnchorHTMLAttributes, ComponentType, ReactNode } from "react";
import { Boundary } from "../ui/boundary.tsx";

export interface Route {
  pattern: string;
  page: ComponentType;
}

type Params = Record<string, string>;
const ParamsContext = createContext<Params>({});
const changed = "helmr:navigate";

function subscribe(tell: () => void): () => void {
  window.addEventListener("popstate", tell);
  window.addEventListener(changed, tell);
  return () => {
    window.removeEventListener("popstate", tell);
    window.removeEventListener(changed, tell);
  };
}

const here = (): string => location.pathname + location.search + location.hash;

export function navigate(to: string, { replace = false } = {}): void {
  if (to === here()) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  window.dispatchEvent(new Event(changed));
  if (!replace) window.scrollTo(0, 0);
}

export function useAddress(): URL {
  const text = useSyncExternalStore(subscribe, here);
  return new URL(text, location.origin);
}

export function useParam(name: string): string {
  return use(ParamsContext)[name] ?? "";
}

/** A filter that lives in the address, so that a link carries it. */
export function useSearch(name: string, otherwise: string): [string, (value: string) => void] {
  const address = useAddress();
  const set = (value: string): void => {
    const next = new URL(here(), location.origin);
    if (value === otherwise) next.searchParams.delete(name);
    else next.searchParams.set(name, value);
    navigate(next.pathname + next.search, { replace: true });
  };
  return [address.searchParams.get(name) ?? otherwise, set];
}

function match(pattern: string, path: string): Params | undefined {
  const wanted = pattern.split("/");
  const given = path.replace(/\/+$/, "").split("/");
  if (pattern === "/" ? path !== "/" : wanted.length !== given.length) return undefined;
  const params: Params = {};
  for (const [i, part] of wanted.entries()) {
    const value = given[i] ?? "";
    if (part.startsWith(":")) params[part.slice(1)] = decodeURIComponent(value);
    else if (part !== value) return undefined;
  }
  return params;
}

export function Routes({ table, lost }: { table: Route[]; lost: ReactNode }): ReactNode {
  const { pathname } = useAddress();
  for (const { pattern, page: Page } of table) {
    const params = match(pattern, pathname);
    if (params)
      return (
        <ParamsContext value={params}>
          <Boundary key={pathname}>
            <Suspense fallback={<Waiting />}>
              <Page key={pathname} />
            </Suspense>
          </Boundary>
        </ParamsContext>
      );
  }
  return lost;
}

/** Nothing at first: what comes at once needs no word. */
function Waiting(): ReactNode {
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return isLong ? (
    <p className="dim" role="status">
      Loading…
    </p>
  ) : null;
}

export function Link({
  href,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }): ReactNode {
  return (
    <a
      href={href}
      {...rest}
      onClick={(event) => {
        rest.onClick?.(event);
        if (
          event.defaultPrevented ||
          event.metaKey ||
          event.ctrlKey ||
          event.shiftKey ||
          event.button !== 0
        )
          return;
        event.preventDefault();
        navigate(href);
      }}
    />
  );
}
