import type { DurationInput } from "./duration.js";
import { durationRequest, instantRequest, lazyWait } from "./waits.js";
import type { LazyWait } from "./waits.js";

/** Waits for time to pass; the run costs nothing meanwhile. A past instant is over at once. */
export const timers = Object.freeze({
  waitFor: (length: DurationInput): LazyWait<void> =>
    lazyWait("timers.waitFor", durationRequest("duration", length)),
  waitUntil: (instant: Date | string): LazyWait<void> =>
    lazyWait("timers.waitUntil", instantRequest("instant", instant)),
});
