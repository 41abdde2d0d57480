// Server-sent events of one response body. Only what the server sends is understood: id, event,
// one line of data, comments.

export interface Frame {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

const maxFrame = 32 * 1024 * 1024;

function frameOf(block: string): Frame | undefined {
  let id: string | undefined;
  let event = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0 || line === "") continue;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id") id = value;
    else if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length === 0 ? undefined : { id, event, data: data.join("\n") };
}

export async function* frames(response: Response): AsyncGenerator<Frame> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of response.body) {
    pending += decoder.decode(chunk as Uint8Array, { stream: true });
    if (pending.length > maxFrame) throw new Error("an event of the server is too long");
    const blocks = pending.split(/\r?\n\r?\n/);
    pending = blocks.pop() as string;
    for (const block of blocks) {
      const frame = frameOf(block);
      if (frame) yield frame;
    }
  }
}
