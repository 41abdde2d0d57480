// A log as lines, however it comes: two streams, cut anywhere, very long. Readers are told at most once a frame.

import { carriedOver } from "./ansi.ts";

export interface Line {
  text: string;
  isError: boolean;
  /** The colours that the lines before have left on. */
  carried?: string;
}
type Stream = "stdout" | "stderr";

/* A line longer than this is shown in parts: one without an end must not stop the page. */
const longest = 8192;

export class LogLines {
  readonly lines: Line[] = [];
  /** Which of them are whose. */
  readonly of: Record<Stream, number[]> = { stdout: [], stderr: [] };
  #open: Record<Stream, { decoder: TextDecoder; rest: string; carried: string }> = {
    stdout: { decoder: new TextDecoder(), rest: "", carried: "" },
    stderr: { decoder: new TextDecoder(), rest: "", carried: "" },
  };
  #readers = new Set<() => void>();
  #isTold = false;
  #version = 0;

  add(stream: Stream, bytes: Uint8Array): void {
    const open = this.#open[stream];
    const parts = (open.rest + open.decoder.decode(bytes, { stream: true })).split("\n");
    open.rest = parts.pop() as string;
    for (const part of parts) this.#push(part, stream);
    if (open.rest.length > longest) {
      this.#push(open.rest, stream);
      open.rest = "";
    }
    this.#tell();
  }

  /** What has no line end will get none. */
  end(): void {
    for (const stream of ["stdout", "stderr"] as const) {
      const { rest } = this.#open[stream];
      if (rest !== "") this.#push(rest, stream);
      this.#open[stream].rest = "";
    }
    this.#tell();
  }

  #push(text: string, stream: Stream): void {
    const line = text.endsWith("\r") ? text.slice(0, -1) : text;
    const isError = stream === "stderr";
    const open = this.#open[stream];
    for (let at = 0; at === 0 || at < line.length; at += longest) {
      const part = line.slice(at, at + longest);
      this.of[stream].push(this.lines.length);
      this.lines.push({ text: part, isError, ...(open.carried && { carried: open.carried }) });
      open.carried = carriedOver(open.carried, part);
    }
  }

  #tell(): void {
    if (this.#isTold) return;
    this.#isTold = true;
    requestAnimationFrame(() => {
      this.#isTold = false;
      this.#version++;
      this.#readers.forEach((reader) => reader());
    });
  }

  readonly subscribe = (reader: () => void): (() => void) => {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  };

  readonly version = (): number => this.#version;
}
