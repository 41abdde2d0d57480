// What a task asks of the server. Each operation has a number that is never used again, and one
// answer. One of those pending may be a wait: the run's blocking stop, at which it can be parked.
import type { Channel } from "./channel.ts";
import type { AResult } from "./messages.ts";
import { ConcurrentWaitError, WaitCancelledError } from "./sdk.ts";
import type { Settlement } from "./sdk.ts";

const pendingLimit = 128;
/* A value of 256 KiB with what is said about it. */
const bodyLimit = 266_240;
const statusOk = 0;

interface Pending {
  readonly isWait: boolean;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

function refusal(body: string): Error {
  const { code = "unknown", message = "the server refused the operation" } = JSON.parse(
    body || "{}",
  ) as { code?: string; message?: string };
  if (code === "concurrent_wait") return new ConcurrentWaitError(message);
  if (code === "cancelled") return new WaitCancelledError(message);
  return Object.assign(new Error(message), { code });
}

function encoded(kind: string, body: object): Buffer {
  const bytes = Buffer.from(JSON.stringify(body));
  if (bytes.length > bodyLimit)
    throw new RangeError(`what ${kind} sends is over 256 KiB of JSON`);
  return bytes;
}

export class Operations {
  readonly #channel: Channel;
  readonly #pending = new Map<bigint, Pending>();
  #last = 0n;
  #wait: bigint | undefined;
  #cancelled: string | undefined;
  #onDrained: (() => void) | undefined;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  /** The number of the wait that is pending. */
  get wait(): bigint | undefined {
    return this.#wait;
  }

  get #others(): number {
    return this.#pending.size - (this.#wait === undefined ? 0 : 1);
  }

  /** Why the program cannot be stopped here, or undefined when it is waiting and nothing else. */
  get busy(): string | undefined {
    if (this.#cancelled !== undefined) return "the run is being cancelled";
    if (this.#others > 0) return "an operation is pending";
    return this.#wait === undefined ? "no wait is pending" : undefined;
  }

  operate(kind: string, body: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#begin(kind, body, { isWait: false, resolve, reject });
    });
  }

  open(body: object): Promise<Settlement> {
    if (this.#cancelled !== undefined)
      return Promise.resolve({ condition: "cancelled", reason: this.#cancelled });
    return new Promise((resolve, reject) => {
      if (this.#wait !== undefined)
        throw new ConcurrentWaitError("another wait is pending: a run waits for one thing at a time");
      const pending = { isWait: true, resolve: resolve as Pending["resolve"], reject };
      this.#wait = this.#begin("wait.open", body, pending);
    });
  }

  /** The answer has come. One that nobody waits for any more is dropped. */
  settle({ op, status, body }: AResult): void {
    const pending = this.#end(op);
    const text = Buffer.from(body).toString();
    if (status === statusOk) pending?.resolve(text === "" ? undefined : JSON.parse(text));
    else pending?.reject(refusal(text));
  }

  /** The run is over soon: what it waits for will not come, and it waits for nothing more. */
  cancel(reason: string): void {
    this.#cancelled ??= reason;
    if (this.#wait === undefined) return;
    const settlement: Settlement = { condition: "cancelled", reason };
    this.#end(this.#wait)?.resolve(settlement);
  }

  /** Calls back once nothing but a wait is pending: at once when that is so now. */
  whenDrained(call: () => void): void {
    if (this.#others === 0) call();
    else this.#onDrained = call;
  }

  #begin(kind: string, body: object, pending: Pending): bigint {
    const bytes = encoded(kind, body);
    if (this.#pending.size >= pendingLimit)
      throw new RangeError(`${pendingLimit} operations are pending: await some of them first`);
    const op = ++this.#last;
    this.#channel.send("A_OP", { op, kind, body: bytes });
    this.#pending.set(op, pending);
    this.#channel.keepAlive(true);
    return op;
  }

  #end(op: bigint): Pending | undefined {
    const pending = this.#pending.get(op);
    this.#pending.delete(op);
    if (op === this.#wait) this.#wait = undefined;
    if (this.#pending.size === 0) this.#channel.keepAlive(false);
    if (this.#others === 0) this.#onDrained?.();
    return pending;
  }
}
