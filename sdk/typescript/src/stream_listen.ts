// Listening to a stream: one live wait after another, until somebody says it is enough.
import { streamRecord } from "./client/stream_record.js";
import type { StreamRecord, StreamRecordRecord } from "./client/stream_record.js";
import { runRuntime } from "./runtime.js";
import { openWait } from "./waits.js";
import type { WaitRequest } from "./waits.js";

export interface StreamListener {
  /** Settles when it listens no more; rejects with what the handler threw, or when nothing came. */
  readonly done: Promise<void>;
  /** Ends it. A handler that is at work is waited for. */
  off(): Promise<void>;
}

export function listen<I, O>(
  handler: (data: O, record: StreamRecord<I>) => unknown,
  first: () => WaitRequest,
  later: () => WaitRequest,
): StreamListener {
  const runtime = runRuntime("input.on");
  let isOff = false;
  let isWaiting = false;

  async function next(ask: () => WaitRequest): Promise<boolean> {
    const asked = ask();
    let came: StreamRecordRecord | undefined;
    isWaiting = true;
    const result = await openWait<O>("input.on", {
      ...asked,
      unpack: (answer) => {
        /* What comes when nobody listens any more is left for the next who does. */
        if (isOff) return undefined;
        came = answer as StreamRecordRecord;
        return asked.unpack?.(answer);
      },
    });
    isWaiting = false;
    if (isOff) return false;
    const data = result.unwrap();
    if (came !== undefined) await handler(data, streamRecord<I>(came));
    return !isOff;
  }

  async function loop(): Promise<void> {
    let goesOn = await next(first);
    while (goesOn) goesOn = await next(later);
  }

  const done = loop();
  return Object.freeze({
    done,
    off: async () => {
      isOff = true;
      if (isWaiting) await runtime.operate("wait.cancel", {});
      await done;
    },
  });
}
