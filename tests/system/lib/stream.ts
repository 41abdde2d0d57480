// Server-sent events read by hand, so that a test can cut the connection wherever it likes.
import assert from "node:assert/strict";
import { request } from "node:http";
import { apiKey, url } from "./helmr.ts";

export interface Frame {
  readonly id: string;
  readonly event: string;
  readonly data: any;
}

function frameOf(block: string): Frame | undefined {
  const fields = Object.fromEntries(
    block
      .split("\n")
      .filter((line) => !line.startsWith(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
  );
  if (fields.data === undefined) return undefined;
  return { id: fields.id as string, event: fields.event as string, data: JSON.parse(fields.data) };
}

/**
 * Reads frames after `after` and gives each to `take`. Ends true when the server ends the stream,
 * false when the connection was cut after `cutBytes`, wherever in a frame that was.
 */
export function read(
  path: string,
  after: string | undefined,
  cutBytes: number,
  take: (frame: Frame) => void,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const headers = {
      Accept: "text/event-stream",
      Authorization: `Bearer ${apiKey}`,
      ...(after !== undefined && { "Last-Event-ID": after }),
    };
    const call = request(`${url}/api${path}`, { headers }, (response) => {
      assert.equal(response.statusCode, 200);
      response.setEncoding("utf8");
      let pending = "";
      let left = cutBytes;
      response.on("data", (chunk: string) => {
        pending += chunk.slice(0, left);
        left -= chunk.length;
        const blocks = pending.split("\n\n");
        pending = blocks.pop() as string;
        blocks.map(frameOf).forEach((frame) => frame && take(frame));
        if (left <= 0) {
          response.removeAllListeners("end");
          call.destroy();
          resolve(false);
        }
      });
      response.on("end", () => resolve(true));
      response.on("error", () => resolve(false));
    });
    call.on("error", reject);
    call.end();
  });
}

/** The whole stream, cut `cuts` times at random and taken up after the last frame seen. */
export async function followCut(path: string, cuts: number, most: number): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (let cut = 0; ;) {
    const limit = cut < cuts ? 1 + Math.floor(Math.random() * most) : Infinity;
    const ended = await read(path, frames.at(-1)?.id, limit, (frame) => frames.push(frame));
    if (ended) return frames;
    cut++;
  }
}
