// One run of one task: load, check the payload, call, report, exit. Exactly one of a failed
// A_LOADED, an A_OUTCOME and the task's own process.exit ends it.
import type { Channel } from "./channel.ts";
import { decodeBody } from "./codec.ts";
import type { Frame } from "./codec.ts";
import { makeContext } from "./context.ts";
import type { Running } from "./context.ts";
import { authorPlace, failureOf, printed } from "./failure.ts";
import { DependencyMissingError, resolveIn } from "./hooks.ts";
import { load } from "./load.ts";
import { makeLog } from "./log.ts";
import { OUTCOME, STREAM_OUTPUT } from "./messages.ts";
import type { ACancel, AResult, AStart } from "./messages.ts";
import { Operations } from "./operations.ts";
import { blockOnOutput } from "./output.ts";
import { Parking } from "./parking.ts";
import { resolutionChain } from "./places.ts";
import { definitionOf, parse, PayloadSchemaValidationError, shared } from "./sdk.ts";
import type { RunRuntime, TaskDefinition } from "./sdk.ts";

const outputLimit = 16 * 1024 * 1024;
const detailsLimit = 65_536;
const listenAfterMs = 20;

/* Kept before task code could put something else in its place. */
const exitProcess: Exit = process.exit.bind(process);

type Exit = (code: number) => void;

function isNothing(payload: unknown): boolean {
  if (payload === null) return true;
  return (
    typeof payload === "object" &&
    !Array.isArray(payload) &&
    Object.keys(payload as object).length === 0
  );
}

function details(error: unknown): string | undefined {
  if (!(error instanceof PayloadSchemaValidationError)) return undefined;
  const issues = error.issues.map(({ message, path = [] }) => ({
    path: path.map((part) => String(typeof part === "object" ? part.key : part)),
    message,
  }));
  const json = JSON.stringify({ issues });
  return Buffer.byteLength(json) <= detailsLimit ? json.replaceAll("\0", "\ufffd") : undefined;
}

/** JSON of what a task returned; undefined for nothing. */
function outputOf(value: unknown): Buffer | undefined {
  if (value === undefined) return undefined;
  const json = JSON.stringify(value) as string | undefined;
  if (json === undefined)
    throw new TypeError(`a task cannot return a ${typeof value}: it has no form in JSON`);
  const bytes = Buffer.from(json);
  if (bytes.length > outputLimit) throw new RangeError(`the task's output is over 16 MiB of JSON`);
  return bytes;
}

class Attempt {
  readonly #channel: Channel;
  readonly #start: AStart;
  readonly #running: Running;
  readonly #operations: Operations;
  readonly #exit: Exit;
  #listens: NodeJS.Timeout | undefined;
  #parking: Parking | undefined;
  #phase: "loading" | "running" | "over" = "loading";

  constructor(channel: Channel, start: AStart, exit: Exit) {
    this.#channel = channel;
    this.#start = start;
    this.#exit = (code) => {
      clearTimeout(this.#listens);
      exit(code);
    };
    const log = makeLog(channel);
    this.#running = makeContext(start, log);
    this.#operations = new Operations(channel);
    shared<RunRuntime>("runRuntime").value = {
      identity: () => {
        const { runId, attempt: attemptNumber } = this.#running.identity;
        return { runId, attemptNumber };
      },
      log,
      operate: (kind, body) => this.#listening().operate(kind, body),
      positions: new Map(),
      wait: (body) => this.#listening().open(body),
    };
    process.on("uncaughtException", (error) => this.#uncaught(error));
    process.on("beforeExit", () => this.#ranDry());
  }

  async go(payload: Buffer | undefined): Promise<void> {
    const task = await this.#load();
    const parameters = task && (await this.#parameters(task, payload));
    if (task === undefined || parameters === undefined) return;
    try {
      const result = task.run(...parameters);
      /* Not at once: it costs as much as a short task takes altogether. */
      this.#listens = setTimeout(() => this.#listening(), listenAfterMs).unref();
      this.#succeed(await result);
    } catch (error) {
      this.#fail("failed", error);
    }
  }

  async #load(): Promise<TaskDefinition | undefined> {
    const { module: path = "", export: name = "" } = this.#start;
    const began = performance.now();
    try {
      const module = await load(path);
      const task = definitionOf<TaskDefinition>(module[name], "Task");
      if (task === undefined) throw new Error(`${path} does not export a task as "${name}"`);
      const loadMs = Math.round(performance.now() - began);
      this.#channel.send("A_LOADED", { acceptsPayload: task.acceptsPayload ? 1 : 0, loadMs });
      this.#phase = "running";
      return task;
    } catch (error) {
      this.#loadFailed(error);
      return undefined;
    }
  }

  /** What `run` is called with, by the three rules of the SDK. */
  async #parameters(
    task: TaskDefinition,
    bytes: Buffer | undefined,
  ): Promise<unknown[] | undefined> {
    const { context } = this.#running;
    try {
      const payload: unknown = bytes === undefined ? {} : JSON.parse(bytes.toString());
      if (task.payload)
        return [await parse(`the payload of ${task.id}`, task.payload, payload), context];
      if (task.acceptsPayload) return [payload, context];
      if (isNothing(payload)) return [context];
      this.#fail("payload_invalid", new TypeError(`task ${task.id} takes no payload`));
    } catch (error) {
      const isRefused =
        error instanceof PayloadSchemaValidationError || error instanceof SyntaxError;
      this.#fail(isRefused ? "payload_invalid" : "failed", error);
    }
    return undefined;
  }

  /** From the first operation on, or when the task has lasted a while. */
  #listening(): Operations {
    if (this.#parking === undefined) {
      this.#parking = new Parking(this.#channel, this.#operations, this.#running.identity);
      this.#channel.listen((frame) => this.#told(frame));
      process.on("SIGTERM", () => this.#cancel("the run was asked to end"));
    }
    return this.#operations;
  }

  #told(frame: Frame): void {
    if (frame.name === "A_RESULT")
      this.#operations.settle(decodeBody<AResult>(frame.name, frame.body));
    else if (frame.name === "A_PARK") this.#parking?.asked(frame);
    else if (frame.name === "A_CANCEL")
      this.#cancel(decodeBody<ACancel>(frame.name, frame.body).reason);
  }

  /** The signal first: who listens to it knows why the wait ends. */
  #cancel(reason: string): void {
    this.#running.cancel(reason);
    this.#operations.cancel(reason);
  }

  #succeed(value: unknown): void {
    if (this.#phase === "over") return;
    let output: Buffer | undefined;
    try {
      output = outputOf(value);
    } catch (error) {
      this.#fail("output_invalid", error);
      return;
    }
    this.#phase = "over";
    this.#operations.whenDrained(() => {
      this.#channel.send("A_OUTCOME", { kind: OUTCOME.succeeded, outputLen: output?.length });
      if (output) this.#channel.sendData(STREAM_OUTPUT, output);
      this.#exit(0);
    });
  }

  #fail(kind: Exclude<keyof typeof OUTCOME, "succeeded">, error: unknown): void {
    if (this.#phase === "over") return;
    this.#phase = "over";
    const { name, message, stack } = failureOf(error);
    process.stderr.write(`${kind === "failed" ? printed(error) : `${kind}: ${message}`}\n`);
    this.#operations.whenDrained(() => {
      this.#channel.send("A_OUTCOME", {
        kind: OUTCOME[kind],
        errorName: name,
        errorMessage: message,
        errorStack: stack,
        errorDetails: details(error),
      });
      this.#exit(1);
    });
  }

  #loadFailed(error: unknown): void {
    if (this.#phase === "over") return;
    this.#phase = "over";
    const { name, message, stack } = failureOf(error);
    process.stderr.write(`${printed(error)}\n`);
    this.#channel.send("A_LOADED", {
      failure: error instanceof DependencyMissingError ? "dependency_missing" : "task_failed",
      message: error instanceof DependencyMissingError ? message : `${name}: ${message}`,
      ...authorPlace(error),
      stack,
    });
    this.#exit(1);
  }

  #uncaught(error: unknown): void {
    /* A task that listens itself has said that it goes on. */
    if (process.listenerCount("uncaughtException") > 1) return;
    if (this.#phase === "loading") this.#loadFailed(error);
    else this.#fail("failed", error);
  }

  /** Nothing is left that could ever settle the task. */
  #ranDry(): void {
    if (this.#phase === "loading")
      this.#loadFailed(new Error("the module's top-level await never settled"));
    else
      this.#fail(
        "failed",
        new Error("the task's promise never settled and nothing is left to wait for"),
      );
  }
}

/** `exit` is called once, when everything is said. */
export function attempt(
  channel: Channel,
  start: AStart,
  payload: Buffer | undefined,
  exit: Exit,
): void {
  void new Attempt(channel, start, exit).go(payload);
}

export function run(channel: Channel, start: AStart, payload: Buffer | undefined): void {
  blockOnOutput();
  resolveIn(resolutionChain(start.workspacePath, workdirOf(start)));
  attempt(channel, start, payload, exitProcess);
}

/** Where bare imports are looked for besides the workspace: the image's own directory. */
export function workdirOf({ options }: { options?: string | undefined }): string | undefined {
  return (JSON.parse(options || "{}") as { workdir?: string }).workdir;
}
