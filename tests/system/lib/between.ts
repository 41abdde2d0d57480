// Somebody between a worker and its server, who hears every request and may answer in its place.
import { createServer, request } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";

/** What becomes of a request: it is let through, lost, or refused with a code. */
export type Fate = "passes" | "is lost" | { readonly status: number; readonly code: string };

/* On a connection of its own: what two connections agree on is not for the third party. */
function pass(socketPath: string, from: IncomingMessage, to: ServerResponse): void {
  const { method, url: path } = from;
  const { expect: _expect, connection: _connection, ...headers } = from.headers;
  const onward = request({ socketPath, method, path, headers, agent: false }, (answer) => {
    const { connection: _closes, ...told } = answer.headers;
    to.writeHead(answer.statusCode as number, told);
    answer.pipe(to);
    answer.on("error", () => to.destroy());
  });
  onward.on("error", () => to.destroy());
  to.on("close", () => onward.destroy());
  from.pipe(onward);
}

export class Between {
  /** Asked for each request; all pass until somebody says otherwise. */
  decide: (method: string, path: string) => Fate = () => "passes";
  #server: Server | undefined;

  /** Stands in front of the server's socket; gives the address for workers. */
  stand(path: string, socketPath: string): string {
    this.#server = createServer((from, to) => this.#take(socketPath, from, to));
    this.#server.listen(path);
    return `unix:${path}`;
  }

  leave(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  #take(socketPath: string, from: IncomingMessage, to: ServerResponse): void {
    const fate = this.decide(from.method ?? "", from.url ?? "");
    if (fate === "passes") {
      pass(socketPath, from, to);
      return;
    }
    from.resume();
    if (fate === "is lost") {
      to.destroy();
      return;
    }
    const { status, code } = fate;
    from.on("end", () => {
      to.writeHead(status, { "content-type": "application/json" });
      to.end(JSON.stringify({ error: "somebody is between", code }));
    });
  }
}
