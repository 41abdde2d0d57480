// Connections that Node keeps for later use. They do not survive a park: the peer is told, or it
// is not there any more. Connections of a task's own agents fail at their next use.
import type { Agent } from "node:http";
import { isLoaded } from "./loaded.ts";

/** What `fetch` sends through. */
interface Dispatcher {
  close(): Promise<void>;
  destroy(): Promise<void>;
}

const dispatcherSymbol = Symbol.for("undici.globalDispatcher.1");
const globals = globalThis as unknown as Record<symbol, Dispatcher | undefined>;

function globalAgents(): Agent[] {
  const agents: Agent[] = [];
  if (isLoaded("http")) agents.push((require("node:http") as typeof import("node:http")).globalAgent);
  if (isLoaded("https"))
    agents.push((require("node:https") as typeof import("node:https")).globalAgent);
  return agents;
}

/** Node's own, as opposed to one that the task has put in its place: it fails in Node's own code. */
function isNodes(make: new (options?: object) => Dispatcher): boolean {
  try {
    void new make({ connect: 1 });
    return false;
  } catch (error) {
    return String((error as Error).stack).includes("node:internal/deps/undici");
  }
}

/** A fresh dispatcher for `fetch`; the old one is given, or undefined when it was not Node's. */
function replaceDispatcher(): Dispatcher | undefined {
  const old = globals[dispatcherSymbol];
  if (old === undefined) return undefined;
  const make = old.constructor as new (options?: object) => Dispatcher;
  if (!isNodes(make)) return undefined;
  globals[dispatcherSymbol] = new make();
  return old;
}

/** Ends connections that no request uses. */
export function closeIdleSockets(): void {
  for (const agent of globalAgents())
    for (const sockets of Object.values(agent.freeSockets))
      for (const socket of [...(sockets ?? [])]) socket.destroy();
  replaceDispatcher()
    ?.close()
    .catch(() => undefined);
}

/** Ends every connection that is kept, used or not. */
export function destroySockets(): void {
  for (const agent of globalAgents()) agent.destroy();
  replaceDispatcher()
    ?.destroy()
    .catch(() => undefined);
}
