import { byteLength, list, record, refuse, text } from "./check.js";
import { runRuntime } from "./runtime.js";

const typeBytes = 256;
const contentBytes = 256 * 1024;

export interface EmittedEvent {
  readonly type: string;
  readonly content: readonly unknown[];
}

/** The adapter gives it to the task as `ctx.emit`. */
export async function taskEmit(event: EmittedEvent): Promise<void> {
  const given = record("event", event, ["type", "content"]);
  const type = text("event.type", given.type);
  if (byteLength(type) > typeBytes) refuse("event.type", `must not be over ${typeBytes} bytes`);
  const json = JSON.stringify(list("event.content", given.content));
  if (byteLength(json) > contentBytes)
    refuse("event.content", "must not be over 256 KiB of JSON");
  const content = JSON.parse(json) as unknown[];
  await runRuntime("ctx.emit").operate("event.emit", { type, content });
}
