// A real HTTP server on loopback whose answers a test writes down.
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { HelmrClient } from "@helmr/sdk";

export interface Asked {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: unknown;
}

export type Answer = (request: Asked, response: ServerResponse) => void;

export const json =
  (status: number, value: unknown): Answer =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/json", "x-request-id": "req-1" });
    response.end(JSON.stringify(value));
  };

export const bytes =
  (status: number, value: Uint8Array | string): Answer =>
  (_request, response) => {
    response.writeHead(status, { "content-type": "application/octet-stream" });
    response.end(value);
  };

/** SSE frames, then the end of the connection. */
export const sse =
  (...frames: string[]): Answer =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(frames.map((frame) => `${frame}\n\n`).join(""));
  };

export class TestServer implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server: Server;
  readonly #answers: Answer[];
  readonly #upgraded: Duplex[] = [];

  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Answers in this order; the last one is repeated. */
  static async start(...answers: Answer[]): Promise<TestServer> {
    const server = new TestServer(answers);
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get client(): HelmrClient {
    return new HelmrClient({ url: this.url, apiKey: "key-1" });
  }

  /** Takes what the server was asked to switch to. */
  onUpgrade(take: (request: IncomingMessage, socket: Duplex) => void): void {
    this.#server.on("upgrade", (request, socket) => {
      this.#upgraded.push(socket);
      take(request, socket);
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    const { method = "", url = "", headers } = request;
    const isJson = headers["content-type"] === "application/json";
    const body: unknown = text === "" ? undefined : isJson ? JSON.parse(text) : text;
    const asked: Asked = { method, url, headers, body };
    this.asked.push(asked);
    const next = this.#answers.length > 1 ? this.#answers.shift() : this.#answers[0];
    (next as Answer)(asked, response);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    for (const socket of this.#upgraded) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
