// One connection that says when something changed; what is on the page is then asked for again.
import { createContext, use, useEffect, useState, useSyncExternalStore } from "react";
import type { ReactNode } from "react";
import { client } from "../api/client.ts";
import { refreshAll } from "./query.ts";
import { useScope } from "./scope.tsx";

export type Connection = "connecting" | "live" | "lost";
const ConnectionContext = createContext<Connection>("connecting");
/* Many changes at once are one look. */
const settleMs = 250;

/** Whether the machine has a network at all; a connection that hangs without one does not say so. */
function useOnline(): boolean {
  return useSyncExternalStore(
    (tell) => {
      window.addEventListener("online", tell);
      window.addEventListener("offline", tell);
      return () => {
        window.removeEventListener("online", tell);
        window.removeEventListener("offline", tell);
      };
    },
    () => navigator.onLine,
  );
}

export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const { place } = useScope();
  const [connection, setConnection] = useState<Connection>("connecting");
  const isOnline = useOnline();
  const { projectId, environmentId } = place;
  useEffect(() => {
    if (!isOnline) {
      setConnection("lost");
      return;
    }
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wasLost = false;
    const tell = (isOpen: boolean): void => {
      setConnection(isOpen ? "live" : "lost");
      /* What changed meanwhile nobody has told. */
      if (isOpen && wasLost) refreshAll(environmentId);
      wasLost = !isOpen;
    };
    const listen = async (): Promise<void> => {
      const changes = client.events("/live", {
        projectId,
        environmentId,
        signal: stop.signal,
        onConnection: tell,
      });
      for await (const _change of changes)
        timer ??= setTimeout(() => {
          timer = undefined;
          refreshAll(environmentId);
        }, settleMs);
    };
    refreshAll(environmentId);
    listen().catch(() => {
      if (!stop.signal.aborted) setConnection("lost");
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [projectId, environmentId, isOnline]);
  return <ConnectionContext value={connection}>{children}</ConnectionContext>;
}

export const useConnection = (): Connection => use(ConnectionContext);
