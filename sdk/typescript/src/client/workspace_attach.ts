// A terminal over one WebSocket: bytes both ways, and its size.
import { WorkspaceStreamError } from "../errors.js";
import type { RequestOptions } from "./transport.js";
import type { WorkspaceAddress } from "./workspace.js";

export interface PtyAttachOptions extends RequestOptions {
  /** Output after this byte offset; from the beginning of what is kept unless given. */
  cursor?: number;
}

export interface PtyClosed {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

type Message =
  | { type: "open"; cols: number; rows: number; cursor: number }
  | { type: "cursor"; cursor: number }
  | { type: "closed"; exit_code?: number | null; signal?: string | null }
  | { type: "error"; code: string };

const protocol = "helmr.pty.v1";

/**
 * Iterating gives what the terminal shows. It ends when the terminal is closed or this attachment is
 * detached; when the connection breaks it throws a WorkspaceStreamError, whose cursor says from where
 * to attach again.
 */
export class PtyAttachment implements AsyncIterable<Uint8Array> {
  readonly #socket: WebSocket;
  readonly #pieces: Uint8Array[] = [];
  #cursor = 0;
  #cols = 0;
  #rows = 0;
  #closed: PtyClosed | undefined;
  #error: Error | undefined;
  #isOver = false;
  #wake: () => void = () => undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("close", () => this.#end());
    socket.addEventListener("message", ({ data }) => this.#take(data as string | ArrayBuffer));
  }

  static async open(
    workspace: WorkspaceAddress,
    path: string,
    options: PtyAttachOptions,
  ): Promise<PtyAttachment> {
    const { cursor, signal, ...scope } = options;
    signal?.throwIfAborted();
    const attachment = new PtyAttachment(
      workspace.socket(path, protocol, { ...scope, query: { cursor } }),
    );
    const stop = (): void => attachment.detach();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      while (attachment.#cols === 0 && !attachment.#isOver) await attachment.#next();
    } finally {
      signal?.removeEventListener("abort", stop);
    }
    signal?.throwIfAborted();
    if (attachment.#error) throw attachment.#error;
    return attachment;
  }

  get cols(): number {
    return this.#cols;
  }

  get rows(): number {
    return this.#rows;
  }

  /** The byte offset of what was given out last: where another attachment may go on. */
  get cursor(): number {
    return this.#cursor;
  }

  /** How the terminal ended, once it has. */
  get closed(): PtyClosed | undefined {
    return this.#closed;
  }

  write(data: string | Uint8Array): void {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    this.#socket.send(bytes as Uint8Array<ArrayBuffer>);
  }

  resize(cols: number, rows: number): void {
    this.#say({ type: "resize", cols, rows });
  }

  /** Ends the terminal and what runs in it. */
  close(): void {
    this.#say({ type: "close" });
  }

  /** Leaves; the terminal stays open. */
  detach(): void {
    this.#isOver = true;
    this.#socket.close(1000);
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const piece = this.#pieces.shift();
      if (piece !== undefined) {
        this.#cursor += piece.length;
        yield piece;
        continue;
      }
      if (this.#error) throw this.#error;
      if (this.#isOver) return;
      await this.#next();
    }
  }

  #next(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #say(message: object): void {
    this.#socket.send(JSON.stringify(message));
  }

  #take(data: string | ArrayBuffer): void {
    if (typeof data === "string") this.#hear(JSON.parse(data) as Message);
    else this.#pieces.push(new Uint8Array(data));
    this.#wake();
  }

  #hear(message: Message): void {
    if (message.type === "open") {
      this.#cols = message.cols;
      this.#rows = message.rows;
      this.#cursor = message.cursor;
    } else if (message.type === "closed") {
      const { exit_code: exitCode = null, signal = null } = message;
      this.#closed = { exitCode, signal };
      this.#isOver = true;
      this.#socket.close(1000);
    } else if (message.type === "error") this.#fail(message.code);
  }

  #fail(code: string): void {
    const waiting = this.#pieces.reduce((sum, piece) => sum + piece.length, this.#cursor);
    const message = `the terminal cannot be followed any more: ${code}`;
    this.#error ??= new WorkspaceStreamError(message, { code, cursor: String(waiting) });
    this.#isOver = true;
  }

  #end(): void {
    if (!this.#isOver) this.#fail("connection_lost");
    this.#wake();
  }
}
