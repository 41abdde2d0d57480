// The one descriptor between adapter and agent. Writes are always synchronous, so nothing is lost
// when the program exits; reads are synchronous until the task runs and event-driven after.
import { readSync, writeSync } from "node:fs";
import { encodeBody, encodeFrame, FrameReader } from "./codec.ts";
import type { Body, Frame } from "./codec.ts";
import { FRAME_END } from "./messages.ts";
import type { MessageName } from "./messages.ts";

const chunkLength = 65_536;

/** Makes a system call again while its descriptor, non-blocking by somebody's doing, says wait. */
export function patiently(call: () => number): number {
  for (;;)
    try {
      return call();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
}

export class Channel {
  readonly #fd: number;
  readonly #reader = new FrameReader();
  #socket: import("node:net").Socket | undefined;
  #isKeptAlive = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  send(name: MessageName, body: Body): void {
    this.#write(encodeFrame(name, encodeBody(name, body)));
  }

  /** The whole of a data stream. */
  sendData(stream: number, bytes: Uint8Array): void {
    for (let at = 0; at === 0 || at < bytes.length; at += chunkLength) {
      const flags = at + chunkLength >= bytes.length ? FRAME_END : 0;
      this.#write(encodeFrame("DATA", bytes.subarray(at, at + chunkLength), stream, flags));
    }
  }

  /** Blocks until a whole frame is there. */
  receive(): Frame {
    const chunk = Buffer.allocUnsafe(chunkLength);
    for (;;) {
      const frame = this.#reader.next();
      if (frame) return frame;
      const length = patiently(() => readSync(this.#fd, chunk));
      if (length === 0) throw new Error("the agent closed the channel");
      this.#reader.push(Buffer.from(chunk.subarray(0, length)));
    }
  }

  /** Blocks until the stream has ended. */
  receiveData(stream: number): Buffer {
    const parts: Buffer[] = [];
    for (;;) {
      const frame = this.receive();
      if (frame.name !== "DATA" || frame.stream !== stream)
        throw new Error(`${frame.name} came inside data stream ${stream}`);
      parts.push(frame.body);
      if (frame.flags & FRAME_END) return Buffer.concat(parts);
    }
  }

  /** From here on frames go to `handle`. Does not keep the program alive unless told to. */
  listen(handle: (frame: Frame) => void): void {
    /* Only now: it is a large part of Node, and the task's first line need not wait for it. */
    const { Socket } = require("node:net") as typeof import("node:net");
    const socket = new Socket({ fd: this.#fd, readable: true, writable: false });
    this.#socket = socket;
    this.keepAlive(this.#isKeptAlive);
    socket.on("data", (chunk: Buffer) => {
      this.#reader.push(chunk);
      for (let frame = this.#reader.next(); frame; frame = this.#reader.next()) handle(frame);
    });
    socket.on("error", () => socket.destroy());
  }

  /** Whether something is to come for which the program must not end. */
  keepAlive(isNeeded: boolean): void {
    this.#isKeptAlive = isNeeded;
    if (isNeeded) this.#socket?.ref();
    else this.#socket?.unref();
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;)
      at += patiently(() => writeSync(this.#fd, bytes, at, bytes.length - at));
  }
}
