// Standard output and error of the task. Node makes a pipe non-blocking, queues what does not fit,
// and forgets the queue at process.exit; the task's children inherit the mode and fail on a full
// pipe. Here writes block instead: nothing is lost, and a slow reader slows the task. It is also
// quicker to set up.
import { writeSync } from "node:fs";
import { patiently } from "./channel.ts";

/** Writes to it block. */
export function openOutput(fd: number): NodeJS.WritableStream {
  const { Writable } = require("node:stream") as typeof import("node:stream");
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Uint8Array, encoding, done) {
      const bytes = typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk;
      for (let at = 0; at < bytes.length;) at += patiently(() => writeSync(fd, bytes, at));
      done();
    },
  });
  /* As Node's own: it is never closed, whatever is piped into it. */
  stream.destroy = () => stream;
  return Object.assign(stream, { fd, _type: "pipe" });
}

function replace(name: "stdout" | "stderr", fd: number): void {
  let stream: NodeJS.WritableStream | undefined;
  /* Opened at its first use: a task that prints nothing does not pay for it. */
  const get = (): NodeJS.WritableStream => (stream ??= openOutput(fd));
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get });
}

let isBlocking = false;

export function blockOnOutput(): void {
  if (isBlocking) return;
  isBlocking = true;
  replace("stdout", 1);
  replace("stderr", 2);
}
