// The TCP sockets of this process, for engines that cannot save one which an epoll watches, as
// Node watches all of its. At the barrier they are closed: what was connected finds its connection
// reset, as it would after a park anyway, and what listened listens again.
import type { Server, Socket } from "node:net";

type Kind = "connection" | "server";

/** Node's handle of a socket. Its own fields are kept when another takes its place. */
interface Handle {
  [field: PropertyKey]: unknown;
  close(): void;
  getsockname(to: { address?: string; port?: number; family?: string }): number;
  listen(backlog: number): number;
  unref(): void;
}

type Listening = Server & { _handle: Handle | null; _unref?: boolean };
type Method = (this: Handle, ...args: unknown[]) => unknown;

/* The first method that is called says what a handle is for. */
const uses: Record<string, Kind> = {
  connect: "connection",
  connect6: "connection",
  readStart: "connection",
  listen: "server",
};
const backlog = 511;

const open = new Map<Handle, Kind>();

function watch(prototype: Record<string, Method>): void {
  for (const [name, kind] of Object.entries(uses)) {
    const use = prototype[name] as Method;
    prototype[name] = function (...args) {
      if (!open.has(this)) open.set(this, kind);
      return use.apply(this, args);
    };
  }
  const close = prototype.close as Method;
  prototype.close = function (...args) {
    open.delete(this);
    return close.apply(this, args);
  };
}

try {
  const { binding } = process as unknown as { binding(name: string): any };
  watch(binding("tcp_wrap").TCP.prototype);
} catch {
  /* A Node without it: its sockets stay open, and the agent does not let it be saved with them. */
}

function ownerOf(handle: Handle): unknown {
  const symbols = Object.getOwnPropertySymbols(handle);
  const key = symbols.find(({ description }) => description === "owner_symbol");
  return key && handle[key];
}

/* Closed now; whoever uses it hears of it when the event loop turns again. */
function reset(socket: Socket): void {
  const error = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
  socket.destroy(socket.listenerCount("error") > 0 ? error : undefined);
}

function listenAgain(server: Listening, old: Handle, at: { address: string; port: number }): void {
  const net = require("node:net") as { _createServerHandle(...args: unknown[]): Handle | number };
  const made = net._createServerHandle(at.address, at.port, at.address.includes(":") ? 6 : 4);
  let failed = typeof made === "number" ? made : 0;
  if (typeof made !== "number") {
    for (const key of Reflect.ownKeys(old)) made[key] = old[key];
    server._handle = made;
    failed = made.listen(backlog);
    if (server._unref) made.unref();
  }
  if (failed) {
    const error = new Error(`listening again to ${at.address}:${at.port} failed (${failed})`);
    process.nextTick(() => server.emit("error", error));
  }
}

/** Closes every TCP socket; what is given listens again where something listened. */
export function closeTcp(): () => void {
  const again: (() => void)[] = [];
  for (const [handle, kind] of [...open]) {
    const owner = ownerOf(handle);
    if (kind === "connection") {
      if (owner) reset(owner as Socket);
      continue;
    }
    const server = owner as Listening | undefined;
    const at: { address?: string; port?: number } = {};
    if (server?._handle !== handle || handle.getsockname(at) !== 0) continue;
    handle.close();
    again.push(() => listenAgain(server, handle, at as { address: string; port: number }));
  }
  return () => again.forEach((listen) => listen());
}
