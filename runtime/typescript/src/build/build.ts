// The two modes of a deployment. A fault goes out as A_LOADED with its file and line, then as a
// failed outcome whose details are the same in JSON.
import type { Channel } from "../channel.ts";
import { failureOf, printed } from "../failure.ts";
import { OUTCOME, STREAM_OUTPUT } from "../messages.ts";
import { blockOnOutput } from "../output.ts";
import { fit } from "../text.ts";
import { check } from "./check.ts";
import type { CheckOptions } from "./check.ts";
import { Fault, faultOf } from "./fault.ts";
import { index } from "./indexer.ts";
import type { IndexOptions } from "./indexer.ts";

const exit = process.exit.bind(process);

function report(channel: Channel, thrown: unknown): never {
  if (!(thrown instanceof Fault)) {
    /* The adapter's own mistake: its stack is of use, a kind would be a lie. */
    const { name, message, stack } = failureOf(thrown);
    process.stderr.write(`${printed(thrown)}\n`);
    channel.send("A_OUTCOME", {
      kind: OUTCOME.failed,
      errorName: name,
      errorMessage: message,
      errorStack: stack,
    });
    return exit(1);
  }
  const { kind, place } = thrown;
  const message = fit(thrown.message, 16_384);
  channel.send("A_LOADED", { failure: kind, message, ...place });
  channel.send("A_OUTCOME", {
    kind: OUTCOME.failed,
    errorName: kind,
    errorMessage: message,
    errorDetails: JSON.stringify({ failure_kind: kind, message, ...place }),
  });
  return exit(1);
}

function work(mode: string, mount: string | undefined, options: unknown): Promise<object> {
  if (mode === "index") return index(options as IndexOptions);
  if (mode === "check") return check(mount, options as CheckOptions);
  return Promise.reject(new Error(`the adapter has no mode "${mode}"`));
}

export function build(
  channel: Channel,
  mode: string,
  mount: string | undefined,
  options: unknown,
): void {
  blockOnOutput();
  const kind = mode === "index" ? "task_invalid" : "task_load_failed";
  process.on("uncaughtException", (error) => report(channel, faultOf(kind, "a module", error)));
  process.on("beforeExit", () =>
    report(channel, new Fault(kind, "a module's top-level await never settled")),
  );
  work(mode, mount, options).then(
    (result) => {
      const output = Buffer.from(JSON.stringify(result));
      channel.send("A_OUTCOME", { kind: OUTCOME.succeeded, outputLen: output.length });
      channel.sendData(STREAM_OUTPUT, output);
      exit(0);
    },
    (error: unknown) => report(channel, error),
  );
}
