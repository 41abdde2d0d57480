// One connection that says when something changed; what is on the page is then asked for again.
import { createContext, use, useEffect, useState } from "react";
import type { ReactNode } from "react";
import { client } from "../api/client.ts";
import { refreshAll } from "./query.ts";
import { useScope } from "./scope.tsx";

export type Connection = "connecting" | "live" | "lost";
const ConnectionContext = createContext<Connection>("connecting");
/* Many changes at once are one look. */
const settleMs = 250;

export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const { place } = useScope();
  const [connection, setConnection] = useState<Connection>("connecting");
  const { projectId, environmentId } = place;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const listen = async (): Promise<void> => {
      const changes = client.events("/live", {
        projectId,
        environmentId,
        signal: stop.signal,
        onConnection: (isOpen) => setConnection(isOpen ? "live" : "lost"),
      });
      for await (const _change of changes)
        timer ??= setTimeout(() => {
          timer = undefined;
          refreshAll(environmentId);
        }, settleMs);
    };
    listen().catch(() => {
      if (!stop.signal.aborted) setConnection("lost");
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [projectId, environmentId]);
  return <ConnectionContext value={connection}>{children}</ConnectionContext>;
}

export const useConnection = (): Connection => use(ConnectionContext);
