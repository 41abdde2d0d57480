// A registry that misbehaves: a proxy in front of a good one, which treats each answer as told.
import { createServer, request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Scope } from "./scope.ts";

/** Takes one request over from the proxy; without it the request goes through. */
export type Fault = (call: Call) => void;

export interface Call {
  readonly path: string;
  /** How often this path was asked for before. */
  readonly earlier: number;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Asks the registry behind, and gives its answer to the caller as it is. */
  pass(): void;
  /** Asks the registry behind, and gives its answer here. */
  fetch(take: (answer: IncomingMessage, body: Buffer) => void): void;
}

export interface Proxy {
  readonly host: string;
  readonly calls: string[];
  /** What to do with requests from now on. */
  use(fault: Fault): void;
}

const isBlob = (path: string): boolean => path.includes("/blobs/sha256:");

function collect(answer: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    answer.on("data", (piece: Buffer) => pieces.push(piece));
    answer.on("end", () => resolve(Buffer.concat(pieces)));
  });
}

export async function startProxy(t: Scope, behind: string): Promise<Proxy> {
  let fault: Fault = ({ pass }) => pass();
  const calls: string[] = [];
  const counts = new Map<string, number>();
  const server = createServer((incoming, response) => {
    const path = incoming.url ?? "/";
    const earlier = counts.get(path) ?? 0;
    counts.set(path, earlier + 1);
    calls.push(`${incoming.method} ${path}`);
    const ask = (take: (answer: IncomingMessage) => void): void => {
      const [host, port] = behind.split(":");
      const { method, headers } = incoming;
      const options = { host, port, path, method, headers: { ...headers, host: behind } };
      incoming.pipe(request(options, take).on("error", () => response.destroy()));
    };
    const pass = (): void =>
      ask((answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
    const fetch: Call["fetch"] = (take) =>
      ask(async (answer) => take(answer, await collect(answer)));
    response.on("error", () => {});
    fault({ path, earlier, request: incoming, response, pass, fetch });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    calls,
    use(next) {
      fault = next;
      counts.clear();
      calls.length = 0;
    },
  };
}

type Treat = (call: Call) => void;

/** The fault for the blobs' content only; everything else passes. */
export const blobs =
  (treat: Treat): Fault =>
  (call) =>
    call.request.method === "GET" && isBlob(call.path) ? treat(call) : call.pass();

/** The first `times` requests of each path are treated so, the rest passes. */
export const first =
  (times: number, treat: Treat): Treat =>
  (call) =>
    call.earlier < times ? treat(call) : call.pass();

/** One byte in the middle is another. */
export const corrupt: Treat = ({ response, fetch }) =>
  fetch((answer, body) => {
    const at = body.length >> 1;
    body[at] = (body[at] as number) ^ 1;
    response.writeHead(answer.statusCode ?? 500, answer.headers).end(body);
  });

/** The content of something else, as long as it should be or not. */
export const replace =
  (content: Buffer): Treat =>
  ({ response }) => {
    response.writeHead(200, { "content-length": content.length }).end(content);
  };

/** Half of what was promised, then the connection breaks. */
export const drop: Treat = ({ response, fetch }) =>
  fetch((answer, body) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    response.write(body.subarray(0, body.length >> 1), () => response.destroy());
  });

/** A few bytes, and then nothing for as long as the other side waits. */
export const stall: Treat = ({ response, fetch }) =>
  fetch((answer, body) => {
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    response.write(body.subarray(0, 10));
  });

/** A refusal for now. */
export const refuse =
  (status: number, headers: Record<string, string> = {}): Treat =>
  ({ response, request: incoming }) => {
    incoming.resume();
    response.writeHead(status, headers).end("{}");
  };

/** The same path on another host. */
export const redirect =
  (origin: string): Treat =>
  ({ response, path }) => {
    response.writeHead(307, { location: `${origin}${path}` }).end();
  };
