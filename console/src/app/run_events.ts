// The history of one run as it grows; whatever is shown of the run is asked for again with it.
import { useEffect, useState } from "react";
import { client } from "../api/client.ts";
import type { RunEvent } from "../api/types.ts";
import { refreshAll } from "./query.ts";
import { useScope } from "./scope.tsx";

export function useRunEvents(runId: string): RunEvent[] {
  const {
    place: { projectId, environmentId },
  } = useScope();
  const [events, setEvents] = useState<RunEvent[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    let batch: RunEvent[] = [];
    setEvents([]);
    const read = async (): Promise<void> => {
      const records = client.events<RunEvent>(`/runs/${runId}/events`, {
        projectId,
        environmentId,
        signal: stop.signal,
      });
      for await (const { data } of records) {
        /* That something was printed is told by the log itself. */
        if (data.kind.startsWith("log.")) continue;
        if (batch.push(data) === 1)
          requestAnimationFrame(() => {
            const came = batch;
            batch = [];
            setEvents((before) => [...before, ...came]);
            refreshAll(`${environmentId} /runs/${runId}`);
          });
      }
    };
    read().catch(() => undefined);
    return () => stop.abort();
  }, [runId, projectId, environmentId]);
  return events;
}
